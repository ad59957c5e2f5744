package policycheck

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const head = "apiVersion: mooring.dev/v1alpha1\nkind: NodePolicy\nmode: enforce\n"

func withDomains(namespaces, domains string) string {
	return head + "lifecycle: {libvirt: {}}\nrules: [{name: a, namespaces: " + namespaces +
		", domains: " + domains + "}]"
}

func TestWarnings(t *testing.T) {
	const rule = "rules: [{name: a, namespaces: [a], memlock: {max: 1Gi}}]\n"
	for name, test := range map[string]struct {
		text string
		want []string // PATH: a part of the message
	}{
		"nothing":  {head + rule, nil},
		"no rules": {head, []string{"rules: there are none"}},
		"observe": {strings.Replace(head, "enforce", "observe", 1) + rule,
			[]string{"mode: observe"}},
		"no mode": {strings.Replace(head, "mode: enforce\n", "", 1) + rule,
			[]string{"mode: observe, which is also the default"}},
		"profile": {
			head + rule + "profiles: [{name: p, podLabels: {a: b}, container: c}, {name: q, " +
				"podLabels: {a: b, c: d}, container: c}, {name: r, podLabels: {c: d}, " +
				"container: c}]",
			[]string{`profiles[1]: profile "q" never recognises a pod, because profile "p"`},
		},
		"rule": {
			head + "rules: [{name: a, namespaces: ['*']}, {name: b, namespaces: [vms, 'x-*']}]",
			[]string{
				`rules[1]: rule "b" never applies, because rule "a" matches the same pods ` +
					`before it`},
		},
		"rule, by several": {
			head + "rules: [{name: a, namespaces: [a]}, {name: b, namespaces: [b]}, {name: c, " +
				"namespaces: [a, b]}]",
			[]string{
				`rules[2]: rule "c" never applies, because rules "a", "b" match the same pods ` +
					`before it`},
		},
		"one namespace of a rule": {
			head + "rules: [{name: a, namespaces: ['vms-*']}, {name: b, namespaces: [x, vms-1]}]",
			[]string{`rules[1].namespaces[1]: "vms-1" has no effect here, because rule "a"`},
		},
		"rule with accounts after one without": {
			head + "rules: [{name: a, namespaces: ['*']}, {name: b, namespaces: [x], " +
				"serviceAccounts: [s]}]",
			[]string{`rules[1]: rule "b" never applies`,
				"rules[1].serviceAccounts: the agent learns"},
		},
		"rule without accounts after one with": {
			head + "rules: [{name: a, namespaces: ['*'], serviceAccounts: [s]}, {name: b, " +
				"namespaces: [x]}]",
			[]string{"rules[0].serviceAccounts: the agent learns"},
		},
		"narrower accounts": {
			head + "rules: [{name: a, namespaces: ['*'], serviceAccounts: ['s*']}, {name: b, " +
				"namespaces: [x], serviceAccounts: [s1]}]",
			[]string{"rules[0].serviceAccounts", `rules[1]: rule "b" never applies`,
				"rules[1].serviceAccounts"},
		},
		"unlimited for all": {
			head + "rules: [{name: a, namespaces: ['*'], memlock: {unlimited: true, max: 16Gi}}]",
			[]string{"rules[0].memlock.unlimited: a pod of any namespace"},
		},
		"unlimited and a ceiling": {
			head + "memlock: {nodeMax: 1Gi}\nrules: [{name: a, namespaces: [x], memlock: " +
				"{unlimited: true}}]", nil,
		},
		"more than the node's": {
			head + "memlock: {nodeMax: 1Gi}\nrules: [{name: a, namespaces: [x], memlock: {max: " +
				"2Gi}}]",
			[]string{"rules[0].memlock.max: 2Gi is more than memlock.nodeMax, 1Gi"},
		},
		"files": {
			head + "rules: [{name: a, namespaces: [x], cgroupFiles: [memory.high, cpu.weight, " +
				"cpu.max, memory.low]}]",
			[]string{"rules[0].cgroupFiles: kubelet writes cpu.max, cpu.weight",
				"rules[0].cgroupFiles: memory.low: the kernel protects only"},
		},
		"stops": {head + "lifecycle: {unattended: stop, hung: stop}\n" + rule,
			nil},
		"libvirt without a rule": {head + "lifecycle: {libvirt: {}}\n" + rule,
			[]string{"lifecycle.libvirt: no rule allows any of its domains"}},
		"domains of nothing": {head + "rules: [{name: a, namespaces: [a], domains: [x]}]",
			[]string{"rules[0].domains: lifecycle.libvirt is missing"}},
		"all domains":       {withDomains("[a]", "['*']"), nil},
		"domains by prefix": {withDomains("['t-*']", "['t-*']"), nil},
		"all domains, glob": {withDomains("['t-*']", "[x, '**']"),
			[]string{"rules[0].domains[1]: a pod of any of the namespaces may bind, and stop, " +
				"the VMs of all others"}},
		"all domains, both": {withDomains("[a, b]", "['*']"),
			[]string{"rules[0].domains[0]: a pod of any of the namespaces"}},
	} {
		p, err := Read(name, strings.NewReader(test.text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := Warnings(p)
		if len(got) != len(test.want) {
			t.Errorf("%s: got %v, want %q", name, got, test.want)
			continue
		}
		for i, w := range got {
			if !strings.HasPrefix(w.String(), test.want[i]) {
				t.Errorf("%s: got %q, want %q", name, w, test.want[i])
			}
		}
	}
}

func TestReportHasAllFaultsWithPaths(t *testing.T) {
	p, err := Read("stdin",
		strings.NewReader(head+"moe: x\nrules: [{name: a, memlock: {max: 16Gb}}]"))
	got := NewReport("stdin", p, err)
	var paths []string
	for _, f := range got.Faults {
		paths = append(paths, f.Path+" "+f.Value)
	}
	want := []string{"moe ", `rules[0].memlock.max "16Gb"`, "rules[0].namespaces "}
	if diff := cmp.Diff(want, paths); diff != "" || got.Valid || got.Warnings == nil {
		t.Errorf("%+v (-want +got)\n%s", got, diff)
	}
	got = NewReport("stdin", nil, errors.New("policy: no valid YAML"))
	if want := []Fault{{Message: "policy: no valid YAML"}}; !cmp.Equal(got.Faults, want) {
		t.Errorf("got %+v, want %+v", got.Faults, want)
	}
	p, err = Read("stdin", strings.NewReader(head))
	got = NewReport("stdin", p, err)
	want2 := Report{File: "stdin", Valid: true, Mode: "enforce", Faults: []Fault{},
		Warnings: Warnings(p)}
	if diff := cmp.Diff(want2, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
