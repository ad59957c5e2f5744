package policy

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/api"
)

const head = "apiVersion: mooring.dev/v1alpha1\nkind: NodePolicy\n"

const full = head + `mode: enforce
memlock:
  nodeMax: 256Gi
  repair: prlimit
  requireMemoryLimit: true
lifecycle:
  emulators: [qemu-kvm, .qemu-wrapped]
  gracePeriod: 1h30m
  maxGracePeriod: 2h
  termPeriod: 1s
  unattended: stop
  hung: stop
  fenceAfter: 5s
  libvirt: {records: /run/records, socket: /run/virtqemud-sock}
headroom: {memoryCapacity: 64Gi, cpuCapacity: 16}
profiles:
- name: kubevirt
  podLabels: {kubevirt.io: virt-launcher, tier: "1"}
  container: compute
rules:
- name: tenants
  namespaces: ["vms", "tenant-*", "t[0-9]?"]
  serviceAccounts: ["default", "vm-*.x"]
  memlock: {max: 16Gi, unlimited: true}
  resize: {maxMemory: 64Gi, maxVCPUs: 16}
  cgroupFiles: ["memory.high", "io.max", "hugetlb.2MB.max"]
  domains: ["vm-*", "größe [0-9]"]
- name: bare
  namespaces: ["*"]
`

func TestParse(t *testing.T) {
	want := &Policy{
		Mode:    Enforce,
		Memlock: NodeMemlock{256 << 30, RepairPrlimit, true},
		Lifecycle: Lifecycle{
			Emulators: []string{"qemu-kvm", ".qemu-wrapped"}, GracePeriod: 90 * time.Minute,
			MaxGracePeriod: 2 * time.Hour, TermPeriod: time.Second,
			Unattended: ReactionStop, Hung: ReactionStop, FenceAfter: 5 * time.Second,
			Libvirt: &Libvirt{Records: "/run/records", Socket: "/run/virtqemud-sock"},
		},
		Headroom: Headroom{Memory: 64 << 30, CPUs: 16},
		Profiles: []Profile{{"kubevirt", map[string]string{"kubevirt.io": "virt-launcher",
			"tier": "1"}, "compute"}},
		Rules: []Rule{
			{"tenants", []string{"vms", "tenant-*", "t[0-9]?"}, []string{"default", "vm-*.x"},
				PodMemlock{16 << 30, true}, Resize{64 << 30, 16},
				[]string{"hugetlb.2MB.max", "io.max", "memory.high"},
				[]string{"vm-*", "größe [0-9]"}},
			{Name: "bare", Namespaces: []string{"*"}},
		},
	}
	for name, text := range map[string]string{
		"as it is": full, "windows": strings.ReplaceAll(full, "\n", "\r\n"),
		"document start": "# x\n---\n" + full, "document end": full + "...\n",
		"empty second document": full + "---\n",
	} {
		got, err := Parse([]byte(text))
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got)\n%s", name, err, diff)
		}
	}
}

func TestParseDefaults(t *testing.T) {
	for _, text := range []string{head, head + "rules:\nprofiles: []\nmemlock:\nlifecycle:\n",
		head + "lifecycle: {libvirt: , emulators: }",
		`{"apiVersion": "mooring.dev/v1alpha1", "kind": "NodePolicy"}`} {
		got, err := Parse([]byte(text))
		want := &Policy{Mode: Observe, Memlock: NodeMemlock{Repair: RepairReport},
			Lifecycle: defaultLifecycle()}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%q: %v (-want +got)\n%s", text, err, diff)
		}
	}
}

func TestParsePodMemlock(t *testing.T) {
	for text, want := range map[string]PodMemlock{
		"{}": {}, "{max: 0}": {}, "{unlimited: false}": {}, "{max: 1Gi}": {Max: 1 << 30},
		"{max: 1048576}": {Max: 1 << 20}, "{max: '1048576'}": {Max: 1 << 20},
		"{unlimited: true}": {math.MaxInt64, true}, "{unlimited: true, max: 1Gi}": {1 << 30, true},
		"{unlimited: true, max: 0}": {0, true},
	} {
		p, err := Parse([]byte(head + "rules: [{name: a, namespaces: [a], memlock: " + text + "}]"))
		if err != nil || p.Rules[0].Memlock != want {
			t.Errorf("memlock: %s: got %+v, %v, want %+v", text, p, err, want)
		}
	}
}

// refusal is an invalid policy with a part of its error text.
type refusal struct{ text, want string }

func refusedAtTop() []refusal {
	return []refusal{
		{"", "apiVersion: missing: want mooring.dev/v1alpha1\nkind: missing: want NodePolicy"},
		{"# nothing\n", "apiVersion: missing"},
		{"just text", "policy: string: want a mapping"},
		{"[1]", "policy: array: want a mapping"},
		{"kind: NodePolicy", "apiVersion: missing: want mooring.dev/v1alpha1"},
		{"apiVersion: mooring.dev/v1\nkind: NodePolicy",
			`apiVersion: "mooring.dev/v1": want mooring.dev/v1alpha1`},
		{"apiVersion: mooring.dev/v1alpha1\nkind: nodepolicy",
			`kind: "nodepolicy": want NodePolicy`},
		{head + "mode: Enforce", `mode: "Enforce": want observe or enforce`},
		{head + "mode: ''", `mode: "": want observe or enforce`},
		{head + "mode:", "mode: null: want observe or enforce"},
		{head + "mode: on", "mode: true: want observe or enforce"},
		{head + "mode: [enforce]", `mode: ["enforce"]: want observe or enforce`},
		{head + "mode: enforce\nmode: observe", `key "mode" already set in map`},
		{head + "Mode: enforce", "Mode: unknown field"},
		{head + "rule: []", "rule: unknown field"},
		{head + "memlock: {max: 1Gi}", "memlock.max: unknown field"},
		{head + "memlock: {requireMemoryLimit: 1}", "memlock.requireMemoryLimit: 1: want"},
		{head + "memlock: {nodeMax: 0}", "memlock.nodeMax: 0: want more than zero"},
		{head + "memlock: {nodeMax: -1}", "memlock.nodeMax: -1: want a whole number of bytes"},
		{head + "memlock: {nodeMax: 1e30}", "memlock.nodeMax: 1e30: want decimal digits only"},
		{head + "memlock: {nodeMax: 1.5}", "memlock.nodeMax: 1.5: want decimal digits only"},
		{head + "memlock: {nodeMax: ' 4Gi'}", `memlock.nodeMax: " 4Gi": want a whole number`},
		{head + "memlock: {nodeMax: 8Ei}", `memlock.nodeMax: "8Ei": too large`},
		{head + "memlock: {nodeMax: unlimited}", "memlock.nodeMax: \"unlimited\": want"},
		{head + "memlock: {repair: yes}", "memlock.repair: true: want report or prlimit"},
		{head + "memlock: 5", "memlock: number: want a mapping"},
		{head + "rules: {}", "rules: object: want a list"},
		{head + "rules: [5]", "rules: number: want a mapping"},
		{head + "---\n" + head, "more than one YAML document"},
		{head + "\tx: 1", "no valid YAML"},
		{head + "x: &a [*a]", "no valid YAML"},
		{"\xff\xfe\x00", "no valid YAML"},
		{strings.Repeat("#", MaxSize+1), "policy of more than 1048576 bytes"},
	}
}

func refusedInLists() []refusal {
	rule := func(fields string) string {
		return head + "rules: [{name: ok, namespaces: [a]}, {" + fields + "}]"
	}
	profile := func(fields string) string { return head + "profiles: [{" + fields + "}]" }
	return []refusal{
		{rule("namespaces: [a]"), "rules[1].name: missing: want a name"},
		{rule("name: ok, namespaces: [a]"), `rules[1].name: "ok": rules[0] has the same name`},
		{rule("name: Bad, namespaces: [a]"), `rules[1].name: "Bad": want a name`},
		{rule("name: 1, namespaces: [a]"), "rules[1].name: 1: want a name"},
		{rule("name: b"), "rules[1].namespaces: missing: want at least one name or glob"},
		{rule("name: b, namespaces: []"), "rules[1].namespaces: missing"},
		{rule("name: b, namespaces: a"), "rules.namespaces: string: want a list"},
		{rule("name: b, namespaces: [a, '']"),
			`rules[1].namespaces[1]: "": want a namespace or a glob`},
		{rule("name: b, namespaces: [a, null]"),
			`rules[1].namespaces[1]: null: want a namespace or a glob`},
		{rule("name: b, namespaces: [A]"), `rules[1].namespaces[0]: "A": want`},
		{rule("name: b, namespaces: ['a b']"), `rules[1].namespaces[0]: "a b": want`},
		{rule("name: b, namespaces: ['[']"), `rules[1].namespaces[0]: "[": want`},
		{rule("name: b, namespaces: ['{a,b}']"), `rules[1].namespaces[0]: "{a,b}": want`},
		{rule("name: b, namespaces: ['größe*']"), `rules[1].namespaces[0]: "größe*": want`},
		{rule("name: b, namespaces: [a, a]"),
			`rules[1].namespaces[1]: "a": is in the list already`},
		{rule("name: b, namespaces: [a], serviceAccounts: ['a/b']"),
			`rules[1].serviceAccounts[0]: "a/b": want a service account`},
		{rule("name: b, namespaces: [a], memlock: {max: 16Gb}"),
			`rules[1].memlock.max: "16Gb": want a whole number of bytes as a quantity such as 4Gi`},
		{rule("name: b, namespaces: [a], memlock: {max: unlimited}"),
			`rules[1].memlock.max: "unlimited": want`},
		{rule("name: b, namespaces: [a], memlock: {unlimited: 'true'}"),
			`rules[1].memlock.unlimited: "true": want true or false`},
		{rule("name: b, namespaces: [a], memlock: {unlimited: 1}"),
			`rules[1].memlock.unlimited: 1: want true or false`},
		{rule("name: b, namespaces: [a], memlock: {unlimited: }"),
			`rules[1].memlock.unlimited: null: want true or false`},
		{rule("name: b, namespaces: [a], cgroupFiles: [io.*]"),
			`rules[1].cgroupFiles[0]: "io.*": unknown cgroup file: want one of cpu.idle,`},
		{rule("name: b, namespaces: [a], cgroupFiles: [memory.max]"),
			`rules[1].cgroupFiles[0]: "memory.max": memory.max is the container's memory limit`},
		{rule("name: b, namespaces: [a], cgroupFiles: [memory.high, memory.high]"),
			`rules[1].cgroupFiles[1]: "memory.high": is in the list`},
		{rule("name: b, namespaces: [a], cgroupFile: []"), "rules[1].cgroupFile: unknown field"},
		{profile("podLabels: {a: b}, container: c"), "profiles[0].name: missing"},
		{profile("name: p, container: c"), "profiles[0].podLabels: missing: want at least " +
			"one label"},
		{profile("name: p, podLabels: {a: b}"), "profiles[0].container: missing: want a name"},
		{profile("name: p, podLabels: {a: 1}, container: c"), "profiles[0].podLabels[a]: 1: want " +
			"a label's value"},
		{profile("name: p, podLabels: {'a b': b}, container: c"), "profiles[0].podLabels[a b]: " +
			"no valid label key"},
		{profile("name: p, podLabels: {a: b, a: c}, container: c"), `key "a" already set`},
		{profile("name: p, podLabels: {a: b}, container: C"),
			`profiles[0].container: "C": want a name`},
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range slices.Concat(refusedAtTop(), refusedInLists(), refusedInLifecycle(),
		refusedInHeadroom(), refusedInResize()) {
		got, err := Parse([]byte(c.text))
		if err == nil || got != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.200s\ngot %v, %v\nwant %s", c.text, got, err, c.want)
		}
	}
}

func TestParseReportsAllFaults(t *testing.T) {
	_, err := Parse([]byte("kind: x\nmode: y\nfoo: z\nrules: [{}, {name: a, namespaces: [A], " +
		"memlock: {max: -1}}]"))
	for _, want := range []string{"apiVersion:", "kind:", "mode:", "foo:", "rules[0].name:",
		"rules[0].namespaces:", "rules[1].namespaces[0]:", "rules[1].memlock.max:"} {
		if err == nil || !strings.Contains("\n"+err.Error(), "\n"+want) {
			t.Errorf("%v: does not name %s", err, want)
		}
	}
}

func TestErrorShowsLittle(t *testing.T) {
	long := strings.Repeat("ü\u202e", 10000)
	for _, text := range []string{"mode: \"" + long + "\"", "\"" + long + "\": 1",
		"profiles: [{name: a, container: a, podLabels: {\"" + long + "\": a}}]"} {
		_, err := Parse([]byte(head + text))
		if err == nil || len(err.Error()) > 400 || strings.Contains(err.Error(), "\u202e") {
			t.Errorf("got %.500v", err)
		}
	}
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if p, err := Load(write("good.yaml", full)); err != nil || p.Mode != Enforce {
		t.Errorf("got %+v, %v", p, err)
	}
	for _, path := range []string{write("bad.yaml", "mode: x"), filepath.Join(dir, "none.yaml"),
		dir} {
		if p, err := Load(path); err == nil || p != nil || !strings.Contains(err.Error(), path) {
			t.Errorf("Load(%s) = %v, %v, want an error that names it", path, p, err)
		}
	}
}

// A policy cut at the size limit could lose its last rules.
func TestLoadDoesNotCut(t *testing.T) {
	path := filepath.Join(t.TempDir(), "large.yaml")
	text := full + strings.Repeat("#", MaxSize-len(full))
	for more, refused := range map[string]bool{"": false, "#": true, "####": true} {
		if err := os.WriteFile(path, []byte(text+more), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path); (err != nil) != refused {
			t.Errorf("%d bytes: %v", len(text+more), err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{full, head, "", "a: &a [*a]", "? [a]: b", "<<: {a: b}",
		head + "lifecycle: {fenceAfter: 0, libvirt: {}}", "!!binary x",
		head + "rules: [{namespaces: ['[']}]", "---\n---\n" + head,
		head + "memlock: {nodeMax: 1e30}"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := Parse(data)
		if err != nil {
			if p != nil || err.Error() == "" {
				t.Errorf("%q: got %v, %v", data, p, err)
			}
			if _, ok := errors.AsType[*FieldError](err); ok &&
				strings.ContainsFunc(err.Error(), odd) {
				t.Errorf("%q: got %q", data, err)
			}
			return
		}
		checkSound(t, p)
	})
}

func odd(r rune) bool { return r != '\n' && r != utf8.RuneError && !unicode.IsPrint(r) }

// checkSound checks the properties that the agent relies on.
func checkSound(t *testing.T, p *Policy) {
	t.Helper()
	if p.Mode != Observe && p.Mode != Enforce || p.Memlock.Repair != RepairReport &&
		p.Memlock.Repair != RepairPrlimit || p.Memlock.NodeMax < 0 {
		t.Errorf("got %+v", p)
	}
	checkSoundLifecycle(t, p.Lifecycle)
	if h := p.Headroom; h.Memory < 0 || h.Memory%mib != 0 || h.Memory > maxCapacity || h.CPUs < 0 ||
		h.CPUs > api.MaxVCPUs {
		t.Errorf("got %+v", h)
	}
	for _, f := range p.Profiles {
		if f.Name == "" || f.Container == "" || len(f.PodLabels) == 0 {
			t.Errorf("got %+v", f)
		}
		if _, ok := p.Profile(f.PodLabels); !ok {
			t.Errorf("no profile recognises %v", f.PodLabels)
		}
	}
	for _, r := range p.Rules {
		if r.Name == "" || len(r.Namespaces) == 0 || r.Memlock.Max < 0 {
			t.Errorf("got %+v", r)
		}
		for _, file := range r.CgroupFiles {
			if err := r.AllowCgroupFile(file); err != nil || file == "memory.max" {
				t.Errorf("%s: %v", file, err)
			}
		}
	}
}

// The object of the API has the same fields in spec.
func TestParseObject(t *testing.T) {
	const object = `
apiVersion: mooring.dev/v1alpha1
kind: NodePolicy
metadata: {name: gpu}
spec:
  nodeSelector: {matchLabels: {pool: gpu}}
  priority: 10
  mode: enforce
  rules: [{name: vms, namespaces: [vms], memlock: {max: 16Gi}}]
`
	p, err := Parse([]byte(object))
	if err != nil {
		t.Fatal(err)
	}
	flat, err := Parse([]byte(head + "rules: [{name: vms, namespaces: [vms], memlock: {max: 16Gi}}]"))
	if err != nil {
		t.Fatal(err)
	}
	flat.Mode = Enforce
	if diff := cmp.Diff(flat, p); diff != "" {
		t.Errorf("(-file +object):\n%s", diff)
	}
	for name, c := range map[string]struct{ from, to, want string }{
		"a value": {"16Gi", "16Gb", "spec.rules[0].memlock.max: \"16Gb\": "},
		"a field": {"mode: enforce", "mood: enforce", "spec.mood: unknown field"},
		"priority": {"priority: 10", "priority: 1000000001",
			"spec.priority: 1000000001: want a whole number"},
		"selector":     {"matchLabels", "labels", "spec.nodeSelector: "},
		"both forms":   {"spec:", "mode: observe\nspec:", "want all fields of the policy in spec"},
		"mode of spec": {"enforce", "strict", `spec.mode: "strict": want observe or enforce`},
	} {
		_, err := Parse([]byte(strings.Replace(object, c.from, c.to, 1)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
