package policycheck

import (
	"fmt"
	"maps"
	"math"
	"strings"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/policy"
)

// Warning is about a valid setting with a side effect, or a probable mistake.
type Warning struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

// String returns the warning in one line.
func (w Warning) String() string { return w.Path + ": " + w.Message }

// Warnings returns the warnings about a valid policy, in the order of the file.
func Warnings(p *policy.Policy) []Warning {
	w := &warner{policy: p}
	w.mode()
	w.lifecycle()
	w.profiles()
	if len(p.Rules) == 0 {
		w.warn("rules", "there are none: the agent refuses every launcher that asks for something")
	}
	for i, rule := range p.Rules {
		w.shadowed(i)
		w.accounts(i, rule)
		w.memlock(i, rule)
		w.cgroupFiles(i, rule)
		w.domains(i, rule)
	}
	return w.all
}

type warner struct {
	policy *policy.Policy
	all    []Warning
}

func (w *warner) warn(path, format string, args ...any) {
	w.all = append(w.all, Warning{path, fmt.Sprintf(format, args...)})
}

func (w *warner) mode() {
	if w.policy.Mode != policy.Observe {
		return
	}
	w.warn("mode", "observe, which is also the default: the agent sets and refuses nothing, "+
		"and only reports the settings that it would apply; `mode: enforce` acts")
}

// profiles warns about profiles whose pods an earlier profile recognises: the first one wins.
func (w *warner) profiles() {
	for i, late := range w.policy.Profiles {
		for _, early := range w.policy.Profiles[:i] {
			if !contains(late.PodLabels, early.PodLabels) {
				continue
			}
			w.warn(fmt.Sprintf("profiles[%d]", i), "profile %q never recognises a pod, because "+
				"profile %q before it "+
				"recognises all pods with these labels; put the one with more labels first",
				late.Name, early.Name)
			break
		}
	}
}

// contains reports whether labels has all of part.
func contains(labels, part map[string]string) bool {
	both := maps.Clone(labels)
	maps.Copy(both, part)
	return maps.Equal(both, labels)
}

func (w *warner) accounts(i int, rule policy.Rule) {
	if len(rule.ServiceAccounts) > 0 {
		w.warn(fmt.Sprintf("rules[%d].serviceAccounts", i), "the agent learns service accounts "+
			"from Kubernetes: "+
			"without --kubeconfig, rule %q refuses every launcher of its namespaces", rule.Name)
	}
}

func (w *warner) memlock(i int, rule policy.Rule) {
	path := fmt.Sprintf("rules[%d].memlock", i)
	most, node := rule.Memlock.Max, w.policy.Memlock.NodeMax
	if node > 0 && most > node && most != math.MaxInt64 {
		w.warn(path+".max", "%s is more than memlock.nodeMax, %s, which all launchers of the "+
			"node share: "+
			"the agent never grants as much", api.Bytes(most), api.Bytes(node))
	}
	if rule.Memlock.Unlimited && covers(rule.Namespaces, "*") {
		w.warn(path+".unlimited", "a pod of any namespace may lock as much as its container's "+
			"memory limit")
	}
}

func (w *warner) cgroupFiles(i int, rule policy.Rule) {
	path := fmt.Sprintf("rules[%d].cgroupFiles", i)
	var owned, protection []string
	for _, name := range rule.CgroupFiles {
		file, _ := api.LookupCgroupFile(name)
		if file.KubeletOwned {
			owned = append(owned, name)
		}
		if file.Protection {
			protection = append(protection, name)
		}
	}
	if len(owned) > 0 {
		w.warn(path, "kubelet writes %s from the pod's resources: "+
			"the agent sets the launcher's value again after each write",
			strings.Join(owned, ", "))
	}
	if len(protection) > 0 {
		w.warn(path, "%s: the kernel protects only as much as the cgroups of the pod "+
			"and of its QoS class allow; kubelet sets those",
			strings.Join(protection, ", "))
	}
}
