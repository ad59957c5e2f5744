package decide_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide"
	"github.com/mooring-vm/mooring/decide/decidetest"
	"github.com/mooring-vm/mooring/lifecycle/host"
)

const (
	mi = 1 << 20
	gi = 1 << 30
)

// facts describe container compute in a pod of the namespace.
func facts(namespace string, requests map[string]string) decide.Facts {
	return decide.Facts{
		Pod:         agentapi.PodRef{Namespace: namespace, Name: "vm", UID: "uid-1"},
		Container:   "compute",
		Annotations: decidetest.Launcher(requests),
		MemoryLimit: 2 * gi,
	}
}

func limit(l host.Limit) *host.Limit { return &l }

func TestContainerAllows(t *testing.T) {
	tests := map[string]struct {
		facts   decide.Facts
		memlock *host.Limit
		yield   bool
		cgroup  []api.CgroupSetting
		rule    string
	}{
		"guest memory and a VFIO device": {
			facts: facts("trusted", decidetest.VFIO()), memlock: limit(5 * gi), rule: "trusted",
		},
		"container memory limit where no guest memory is given": {
			facts:   facts("tenant-a", map[string]string{api.RequiresLockKey: "true"}),
			memlock: limit(2 * gi), rule: "tenants",
		},
		"base and value": {
			facts: facts("tenant-a", map[string]string{
				api.RequiresLockKey: "true", api.GuestMemoryKey: "1Gi", api.ValueKey: "512Mi",
			}),
			// 1Gi, 512Mi, and the 290Mi of a launcher's overhead
			memlock: limit(1826 * mi), rule: "tenants",
		},
		"exactly the ceiling of the rule": {
			facts:   facts("tenant-a", decidetest.Lock("16Gi")),
			memlock: limit(16 * gi), rule: "tenants",
		},
		"unlimited in a container with a memory limit": {
			facts:   facts("trusted", decidetest.UnlimitedLock()),
			memlock: limit(host.Unlimited), rule: "trusted",
		},
		"unlimited in a container that may have all of the node": {
			facts:   withNode(facts("trusted", decidetest.UnlimitedLock()), 2*gi),
			memlock: limit(host.Unlimited), rule: "trusted",
		},
		"cgroup files, sorted and normalised": {
			facts: facts("trusted", map[string]string{
				"pids.max" + api.CgroupSuffix: "512", "memory.high" + api.CgroupSuffix: "1Gi",
			}),
			cgroup: []api.CgroupSetting{{File: "memory.high", Value: "1073741824"},
				{File: "pids.max", Value: "512"}},
			rule: "trusted",
		},
		"a launcher without requests needs no rule": {facts: facts("nowhere", nil)},
		"a value that nothing demands": {
			facts: facts("nowhere", map[string]string{api.ValueKey: "1Gi"}),
		},
		"scoped annotations win": {
			facts: facts("trusted", map[string]string{
				api.RequiresLockKey: "true", api.GuestMemoryKey: "1Gi",
				api.GuestMemoryKey + "/container.compute": "3Gi",
			}),
			memlock: limit(3367 * mi), rule: "trusted",
		},
		"service account that the rule names": {
			facts:   withAccount(facts("accounts", decidetest.VFIO()), "vm-1"),
			memlock: limit(5 * gi), rule: "by-account",
		},
		"yields to a spec that has as much": {
			facts: withSpec(facts("trusted", decidetest.VFIO()),
				host.Rlimit{Soft: 5 * gi, Hard: host.Unlimited}),
			memlock: limit(5 * gi), yield: true, rule: "trusted",
		},
		"raises a spec that has less": {
			facts:   withSpec(facts("trusted", decidetest.VFIO()), host.Rlimit{Soft: gi, Hard: gi}),
			memlock: limit(5 * gi), rule: "trusted",
		},
		"raises a spec with a lower soft limit": {
			facts: withSpec(facts("trusted", decidetest.VFIO()),
				host.Rlimit{Soft: gi, Hard: host.Unlimited}),
			memlock: limit(5 * gi), rule: "trusted",
		},
		"just fits the node": {
			facts: withGranted(facts("trusted", decidetest.VFIO()), 62*gi), memlock: limit(5 * gi),
			rule: "trusted",
		},
		"an existing launcher may exceed the node's maximum": {
			facts:   existing(withGranted(facts("trusted", decidetest.VFIO()), 64*gi)),
			memlock: limit(5 * gi), rule: "trusted",
		},
		"unlimited just fits the node": {
			facts:   withGranted(facts("trusted", decidetest.UnlimitedLock()), 62*gi),
			memlock: limit(host.Unlimited), rule: "trusted",
		},
		"another plugin has set the limit": {
			facts: withSpec(withNeighbour(facts("trusted", decidetest.VFIO()),
				"ulimits.noderesource.dev"),
				host.Rlimit{Soft: 6 * gi, Hard: 6 * gi}),
			memlock: limit(5 * gi), yield: true, rule: "trusted",
		},
		"another plugin sets another limit": {
			facts: facts("trusted", map[string]string{
				api.GuestMemoryKey: "4Gi", api.DevicesKey: "vfio=1",
				"ulimits.noderesource.dev/container.compute": "- type: nofile\n  soft: 1024\n  " +
					"hard: 1024\n",
			}),
			memlock: limit(5 * gi), rule: "trusted",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := decide.Container(decidetest.Policy(t, policy.Enforce), test.facts)
			if d.Refusal != nil {
				t.Fatalf("refused: %v", d.Refusal)
			}
			if !d.Act() {
				t.Error("a decision that allows does not act")
			}
			got := []any{d.Memlock, d.Yield, d.Cgroup, d.Rule}
			want := []any{test.memlock, test.yield, test.cgroup, test.rule}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("memlock, yield, cgroup, rule (-want +got):\n%s", diff)
			}
		})
	}
}

func withAccount(f decide.Facts, account string) decide.Facts {
	f.ServiceAccount, f.ServiceAccountKnown = account, true
	return f
}

func withSpec(f decide.Facts, l host.Rlimit) decide.Facts {
	f.SpecMemlock = &l
	return f
}

func withGranted(f decide.Facts, bytes int64) decide.Facts {
	f.NodeGranted = bytes
	return f
}

func existing(f decide.Facts) decide.Facts {
	f.Exists = true
	return f
}

func withNode(f decide.Facts, memory int64) decide.Facts {
	f.NodeMemory = memory
	return f
}

func withNeighbour(f decide.Facts, key string) decide.Facts {
	f.Annotations[key+"/container.compute"] = "- type: RLIMIT_MEMLOCK\n  soft: 1024\n  hard: 1024\n"
	return f
}

func TestContainerLeavesAlone(t *testing.T) {
	other := facts("trusted", decidetest.VFIO())
	other.Container = "guest-console-log"
	plain := facts("trusted", decidetest.VFIO())
	delete(plain.Annotations, api.LauncherKey)
	badElsewhere := facts("trusted", map[string]string{api.GuestMemoryKey: "lots"})
	badElsewhere.Container = "guest-console-log"
	badLauncher := facts("trusted", nil)
	badLauncher.Annotations[api.LauncherKey] = "Not A Name"
	for name, f := range map[string]decide.Facts{
		"another container of a launcher pod":                other,
		"a pod without launcher":                             plain,
		"another container, with annotations that are wrong": badElsewhere,
		"a pod with a malformed launcher annotation":         badLauncher,
		"a pod without any annotation":                       {Container: "compute"},
		"a pod with another label of KubeVirt": {Container: "compute",
			Labels: map[string]string{"kubevirt.io": "virt-handler"}},
		"another container of a pod that a profile recognises": {Container: "sidecar",
			Labels: decidetest.LauncherLabels()},
	} {
		t.Run(name, func(t *testing.T) {
			if d := decide.Container(decidetest.Policy(t, policy.Enforce), f); !cmp.Equal(d,
				decide.Decision{}) {
				t.Errorf("Container = %+v, want nothing", d)
			}
		})
	}
}

func TestContainerNotes(t *testing.T) {
	raised := withSpec(facts("trusted", decidetest.VFIO()), host.Rlimit{Soft: gi, Hard: 2 * gi})
	for name, test := range map[string]struct {
		facts decide.Facts
		want  string
	}{
		"lower limit in the spec": {raised, "has RLIMIT_MEMLOCK 1Gi (hard 2Gi) already: " +
			"raised to 5Gi"},
		"nothing demands the value": {facts("nowhere", map[string]string{api.ValueKey: "1Gi"}),
			api.RequiresLockKey},
		"launcher requests no lock": {facts("nowhere", nil),
			"no memory lock: nothing asks for it"},
		"cgroup files without a lock": {
			facts("trusted", map[string]string{"memory.high" + api.CgroupSuffix: "1Gi"}),
			"no memory lock"},
		"requires-lock says it is not": {
			facts("nowhere", map[string]string{api.RequiresLockKey: "false"}), "is false"},
	} {
		t.Run(name, func(t *testing.T) {
			d := decide.Container(decidetest.Policy(t, policy.Enforce), test.facts)
			if len(d.Notes) != 1 || !strings.Contains(d.Notes[0], test.want) {
				t.Errorf("notes = %q, want one with %q", d.Notes, test.want)
			}
		})
	}
}

// The author of a lone value expects a lock, and gets an Event without one.
func TestContainerReportsUselessValue(t *testing.T) {
	for name, test := range map[string]struct {
		annotations map[string]string
		want        bool
	}{
		"alone": {map[string]string{api.ValueKey: "1Gi"}, true},
		"for the container": {
			map[string]string{"value.memlock.mooring.dev/container.compute": "1Gi"}, true},
		"no lock on purpose": {
			map[string]string{api.ValueKey: "1Gi", api.RequiresLockKey: "false"}, false},
		"nothing": {nil, false},
	} {
		for _, mode := range []policy.Mode{policy.Enforce, policy.Observe} {
			d := decide.Container(decidetest.Policy(t, mode), facts("nowhere", test.annotations))
			got := slices.ContainsFunc(d.Remarks, func(r decide.Remark) bool {
				return r.Type == agentapi.Warning &&
					r.Reason == agentapi.ReasonAnnotationInvalid &&
					strings.Contains(r.Message, "value.memlock.mooring.dev") &&
					strings.Contains(r.Message, "has no effect") &&
					strings.Contains(r.Message, api.RequiresLockKey)
			})
			if got != test.want {
				t.Errorf("%s, %s: %+v", name, mode, d.Remarks)
			}
		}
	}
}

func TestContainerByProfile(t *testing.T) {
	f := facts("trusted", decidetest.VFIO())
	delete(f.Annotations, api.LauncherKey)
	f.Labels = decidetest.LauncherLabels()
	d := decide.Container(decidetest.Policy(t, policy.Enforce), f)
	if !d.Act() || d.Memlock == nil || *d.Memlock != 5*gi {
		t.Errorf("Container for a pod with KubeVirt's label = %+v, want 5Gi", d)
	}
	// The pod's own annotation takes precedence over the profile.
	f.Annotations[api.LauncherKey] = "vm"
	if d := decide.Container(decidetest.Policy(t, policy.Enforce), f); d.Launcher {
		t.Errorf("container compute is a launcher although the annotation names another: %+v", d)
	}
}
