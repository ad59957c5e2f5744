package policydiff

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide"
)

// kubevirtLabels are on every launcher pod of KubeVirt, and on no other pod.
var kubevirtLabels = map[string]string{kubevirtv1.AppLabel: "virt-launcher"}

// Suggestion is a policy that allows just the present settings of launchers, by namespace.
type Suggestion struct {
	YAML    string
	Skipped []string // launchers without a rule, with reasons
}

// rights are the rights that the launchers of one namespace use.
type rights struct {
	max       int64
	unlimited bool
	files     []string
	domains   []string
}

// suggestion collects the parts of a policy.
type suggestion struct {
	modes       map[string]bool
	profiles    []policy.Profile
	rights      map[string]*rights // by namespace
	gracePeriod time.Duration
	skipped     []string
}

// Suggest returns a policy for the launchers: a rule for each namespace, with the largest
// memory-lock limit there. It skips stopped launchers, and launchers that the policy of mode
// enforce refuses. The policy has no maximum for a node.
func Suggest(all []Launcher) (Suggestion, error) {
	s := suggestion{modes: map[string]bool{}, rights: map[string]*rights{}}
	for i := range all {
		l := &all[i]
		if l.OnlyAccount || l.State == agentapi.StateStopped {
			continue
		}
		if why := s.add(l); why != "" {
			s.skipped = append(s.skipped,
				fmt.Sprintf("%s/%s: %s", l.Pod.Namespace, l.Pod.Name, why))
		}
	}
	text := s.yaml()
	if _, err := policy.Parse([]byte(text)); err != nil {
		return Suggestion{}, fmt.Errorf("suggest a policy: %w", err)
	}
	return Suggestion{YAML: text, Skipped: s.skipped}, nil
}

// add adds a launcher, or says why not.
func (s *suggestion) add(l *Launcher) (skipped string) {
	switch {
	case l.Facts == nil:
		return l.Missing
	case today(&l.Launcher).Refused():
		return l.Refusal
	}
	s.modes[l.Mode] = true
	s.addProfile(*l.Facts)
	request, err := api.Parse(l.Facts.Annotations, l.Container.Name)
	if err != nil {
		return err.Error()
	}
	if request.GracePeriod != nil {
		s.gracePeriod = max(s.gracePeriod, *request.GracePeriod)
	}
	if len(l.Settings) == 0 && request.Domain == "" {
		return ""
	}
	r := s.rights[l.Pod.Namespace]
	if r == nil {
		r = &rights{}
		s.rights[l.Pod.Namespace] = r
	}
	for _, setting := range l.Settings {
		r.add(setting)
	}
	if request.Domain != "" {
		r.domains = insert(r.domains, escapeGlob(request.Domain))
	}
	return ""
}

// add adds a setting. A yielded limit stays in force only if the rule allows it.
func (r *rights) add(s agentapi.Setting) {
	if s.Name != agentapi.MemlockSetting {
		r.files = insert(r.files, s.Name)
		return
	}
	limit := s.Requested
	if s.Status == agentapi.StatusYielded {
		limit = s.Given
	}
	if limit == api.Unlimited {
		r.unlimited = true
	} else if bytes, err := api.ParseBytes(limit); err == nil {
		r.max = max(r.max, int64(bytes))
	}
}

// addProfile adds a profile that recognises the pod, unless an annotation does.
func (s *suggestion) addProfile(f decide.Facts) {
	if _, annotated, _ := api.Launcher(f.Annotations); annotated {
		return
	}
	name, labels := fmt.Sprintf("profile-%d", len(s.profiles)+1), f.Labels
	if labels[kubevirtv1.AppLabel] == kubevirtLabels[kubevirtv1.AppLabel] {
		name, labels = "kubevirt", kubevirtLabels
	}
	known := slices.ContainsFunc(s.profiles, func(p policy.Profile) bool {
		return maps.Equal(p.PodLabels, labels)
	})
	if !known {
		s.profiles = append(s.profiles, policy.Profile{Name: name, PodLabels: labels,
			Container: f.Container})
	}
}

func insert(all []string, one string) []string {
	if at, found := slices.BinarySearch(all, one); !found {
		return slices.Insert(all, at, one)
	}
	return all
}

// escapeGlob returns a glob that matches the text and no other text. A backslash, which no policy
// may contain, becomes a question mark.
func escapeGlob(text string) string {
	return strings.NewReplacer("*", "[*]", "?", "[?]", "[", "[[]", `\`, "?").Replace(text)
}

// mode returns the mode of all launchers. Launchers of several modes get observe, the mode without
// an effect.
func (s *suggestion) mode() policy.Mode {
	if len(s.modes) == 1 && s.modes[string(policy.Enforce)] {
		return policy.Enforce
	}
	return policy.Observe
}

func (s *suggestion) yaml() string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: %s\nkind: %s\nmode: %s\n", policy.APIVersion, policy.Kind,
		s.mode())
	s.writeLifecycle(&b)
	if len(s.profiles) > 0 {
		b.WriteString("profiles:\n")
	}
	for _, p := range s.profiles {
		var labels []string
		for _, key := range slices.Sorted(maps.Keys(p.PodLabels)) {
			labels = append(labels, strconv.Quote(key)+": "+strconv.Quote(p.PodLabels[key]))
		}
		fmt.Fprintf(&b, "- name: %s\n  podLabels: {%s}\n  container: %q\n", p.Name,
			strings.Join(labels, ", "), p.Container)
	}
	if len(s.rights) > 0 {
		b.WriteString("rules:\n")
	}
	for _, namespace := range slices.Sorted(maps.Keys(s.rights)) {
		fmt.Fprintf(&b, "- name: %q\n  namespaces: [%[1]q]\n", namespace)
		s.rights[namespace].write(&b)
	}
	return b.String()
}

// writeLifecycle writes the settings without which declared domains or grace periods are refused.
func (s *suggestion) writeLifecycle(b *strings.Builder) {
	var lines []string
	if s.gracePeriod > policy.DefaultMaxGracePeriod {
		lines = append(lines, fmt.Sprintf("  maxGracePeriod: %s\n", s.gracePeriod))
	}
	for _, r := range s.rights {
		if len(r.domains) > 0 {
			lines = append(lines, "  libvirt: {}\n")
			break
		}
	}
	if len(lines) > 0 {
		b.WriteString("lifecycle:\n" + strings.Join(lines, ""))
	}
}

func (r *rights) write(b *strings.Builder) {
	var lock []string
	if r.max > 0 {
		lock = append(lock, "max: "+api.Bytes(r.max).String())
	}
	if r.unlimited {
		lock = append(lock, "unlimited: true")
	}
	if len(lock) > 0 {
		fmt.Fprintf(b, "  memlock: {%s}\n", strings.Join(lock, ", "))
	}
	writeList(b, "cgroupFiles", r.files)
	writeList(b, "domains", r.domains)
}

func writeList(b *strings.Builder, name string, all []string) {
	quoted := make([]string, 0, len(all))
	for _, one := range all {
		quoted = append(quoted, strconv.Quote(one))
	}
	if len(quoted) > 0 {
		fmt.Fprintf(b, "  %s: [%s]\n", name, strings.Join(quoted, ", "))
	}
}
