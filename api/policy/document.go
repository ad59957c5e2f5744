package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	sigsjson "sigs.k8s.io/json"

	"github.com/mooring-vm/mooring/api"
)

// document is the structure of the file. Its leaves are parsed one by one, so that an error can
// name the path and the value.
//
// The object of the API has the fields of the policy in spec. A file may have either form.
type document struct {
	APIVersion json.RawMessage `json:"apiVersion"`
	Kind       json.RawMessage `json:"kind"`
	Metadata   json.RawMessage `json:"metadata"`
	Spec       *specFields     `json:"spec"`
	Status     json.RawMessage `json:"status"`
	policyFields
}

// specFields are the fields of the object's spec.
type specFields struct {
	NodeSelector json.RawMessage `json:"nodeSelector"`
	Priority     json.RawMessage `json:"priority"`
	policyFields
}

type policyFields struct {
	Mode      json.RawMessage   `json:"mode"`
	Memlock   nodeMemlockFields `json:"memlock"`
	Lifecycle lifecycleFields   `json:"lifecycle"`
	Headroom  headroomFields    `json:"headroom"`
	Profiles  []profileFields   `json:"profiles"`
	Rules     []ruleFields      `json:"rules"`
}

type nodeMemlockFields struct {
	NodeMax            json.RawMessage `json:"nodeMax"`
	Repair             json.RawMessage `json:"repair"`
	RequireMemoryLimit json.RawMessage `json:"requireMemoryLimit"`
}

type profileFields struct {
	Name      json.RawMessage            `json:"name"`
	PodLabels map[string]json.RawMessage `json:"podLabels"`
	Container json.RawMessage            `json:"container"`
}

type ruleFields struct {
	Name            json.RawMessage   `json:"name"`
	Namespaces      []json.RawMessage `json:"namespaces"`
	ServiceAccounts []json.RawMessage `json:"serviceAccounts"`
	Memlock         podMemlockFields  `json:"memlock"`
	Resize          resizeFields      `json:"resize"`
	CgroupFiles     []json.RawMessage `json:"cgroupFiles"`
	Domains         []json.RawMessage `json:"domains"`
}

type podMemlockFields struct {
	Max       json.RawMessage `json:"max"`
	Unlimited json.RawMessage `json:"unlimited"`
}

func (r *reader) policy(doc document) *Policy {
	required(r, "apiVersion", doc.APIVersion, oneOf(APIVersion))
	required(r, "kind", doc.Kind, oneOf(Kind))
	if doc.Spec == nil {
		return r.fields(doc.policyFields)
	}
	if !reflect.DeepEqual(doc.policyFields, policyFields{}) {
		r.fail("spec", nil, "want all fields of the policy in spec, or none of them")
	}
	r.at = "spec."
	r.selector(*doc.Spec)
	return r.fields(doc.Spec.policyFields)
}

// selector checks the fields that select nodes. Agents read them from the object.
func (r *reader) selector(f specFields) {
	optional(r, "priority", f.Priority, 0, priority)
	optional(r, "nodeSelector", f.NodeSelector, nil, nodeSelector)
}

// maxPriority bounds the priority of a policy on both sides.
const maxPriority = 1000000

func priority(raw json.RawMessage) (int, error) {
	n, err := strconv.Atoi(string(raw))
	if err != nil || n < -maxPriority || n > maxPriority {
		return 0, fmt.Errorf("want a whole number from -%d to %d", maxPriority, maxPriority)
	}
	return n, nil
}

func nodeSelector(raw json.RawMessage) (labels.Selector, error) {
	var s metav1.LabelSelector
	strict, err := sigsjson.UnmarshalStrict(raw, &s)
	if err := errors.Join(append(strict, err)...); err != nil {
		return nil, errors.New("want a label selector with matchLabels and matchExpressions")
	}
	return metav1.LabelSelectorAsSelector(&s)
}

func (r *reader) fields(doc policyFields) *Policy {
	p := &Policy{
		Mode: optional(r, "mode", doc.Mode, Observe, oneOf(Observe, Enforce)),
		Memlock: NodeMemlock{
			NodeMax: optional(r, "memlock.nodeMax", doc.Memlock.NodeMax, 0, positiveQuantity),
			Repair: optional(r, "memlock.repair", doc.Memlock.Repair, RepairReport,
				oneOf(RepairReport, RepairPrlimit)),
			RequireMemoryLimit: optional(r, "memlock.requireMemoryLimit",
				doc.Memlock.RequireMemoryLimit, false, boolean),
		},
		Lifecycle: r.lifecycle(doc.Lifecycle),
		Headroom:  r.headroom(doc.Headroom),
	}
	for i, fields := range doc.Profiles {
		p.Profiles = append(p.Profiles, r.profile(fmt.Sprintf("profiles[%d]", i), fields))
	}
	for i, fields := range doc.Rules {
		p.Rules = append(p.Rules, r.rule(fmt.Sprintf("rules[%d]", i), fields))
	}
	return p
}

func (r *reader) profile(path string, f profileFields) Profile {
	return Profile{
		Name:      r.uniqueName("profiles", path, f.Name),
		PodLabels: r.labels(path+".podLabels", f.PodLabels),
		Container: required(r, path+".container", f.Container, dnsLabel),
	}
}

func (r *reader) rule(path string, f ruleFields) Rule {
	rule := Rule{
		Name:            r.uniqueName("rules", path, f.Name),
		Namespaces:      list(r, path+".namespaces", f.Namespaces, namespaceGlob),
		ServiceAccounts: list(r, path+".serviceAccounts", f.ServiceAccounts, serviceAccountGlob),
		Memlock:         r.podMemlock(path+".memlock", f.Memlock),
		Resize:          r.resize(path+".resize", f.Resize),
		CgroupFiles:     list(r, path+".cgroupFiles", f.CgroupFiles, cgroupFile),
		Domains:         list(r, path+".domains", f.Domains, domainGlob),
	}
	if len(f.Namespaces) == 0 {
		r.fail(path+".namespaces", nil,
			`missing: want at least one name or glob, such as "vms" or "tenant-*"`)
	}
	slices.Sort(rule.CgroupFiles)
	return rule
}

// podMemlock reads a ceiling. With unlimited and without max, a finite amount has no ceiling.
func (r *reader) podMemlock(path string, f podMemlockFields) PodMemlock {
	m := PodMemlock{Unlimited: optional(r, path+".unlimited", f.Unlimited, false, boolean)}
	none := int64(0)
	if m.Unlimited {
		none = math.MaxInt64
	}
	m.Max = optional(r, path+".max", f.Max, none, quantity)
	return m
}

// labels reads the labels of a profile. At least one is required.
func (r *reader) labels(path string, raw map[string]json.RawMessage) map[string]string {
	if len(raw) == 0 {
		r.fail(path, nil, "missing: want at least one label, such as kubevirt.io: virt-launcher")
	}
	labels := map[string]string{}
	for _, key := range sortedKeys(raw) {
		at := fmt.Sprintf("%s[%s]", path, key)
		if len(validation.IsQualifiedName(key)) > 0 {
			r.fail(at, nil, "no valid label key: want a name such as app or example.org/app")
		}
		labels[key] = required(r, at, raw[key], labelValue)
	}
	return labels
}

// uniqueName reads the name of a list element, which must differ from the names of all other
// elements.
func (r *reader) uniqueName(list, path string, raw json.RawMessage) string {
	name := required(r, path+".name", raw, dnsLabel)
	if name == "" {
		return ""
	}
	if first, taken := r.names[list+name]; taken {
		r.fail(path+".name", raw, "%s has the same name: want another", first)
		return name
	}
	if r.names == nil {
		r.names = map[string]string{}
	}
	r.names[list+name] = path
	return name
}

func cgroupFile(raw json.RawMessage) (string, error) {
	name, err := text(raw)
	if err != nil {
		return "", err
	}
	return name, api.CheckCgroupFile(name)
}
