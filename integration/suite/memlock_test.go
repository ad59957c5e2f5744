package suite

import (
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/integration/cri"
)

func TestCoreMemlockArrives(t *testing.T) {
	claim(t, "A launcher has the annotated memory lock")
	f := setUp(t)
	i := f.run(t, launcher(map[string]string{api.GuestMemoryKey: "4Gi", api.DevicesKey: "vfio=1"}),
		cri.Container{MemoryLimit: 6 * gib})
	if got, want := f.memlock(t, i), both(5*gib); got != want {
		t.Errorf("the kernel has %s, want %s", got, want)
	}
}

func TestMemlockOfAnnotations(t *testing.T) {
	f := setUp(t)
	required := map[string]string{api.RequiresLockKey: "true"}
	for name, test := range map[string]struct {
		annotations map[string]string
		container   cri.Container
		want        string
	}{
		"container's memory limit and value": {
			with(required, map[string]string{api.ValueKey: "1Gi"}),
			cri.Container{MemoryLimit: 2 * gib}, both(3 * gib),
		},
		"not root": {
			with(required, map[string]string{api.ValueKey: "1Gi"}),
			cri.Container{MemoryLimit: gib, User: 107}, both(2 * gib),
		},
		"for this container only": {
			map[string]string{
				api.RequiresLockKey:                      "true",
				api.ValueKey:                             "7Gi",
				api.ValueKey + "/container.compute":      "1Gi",
				api.ValueKey + "/container.other":        "8Gi",
				api.RequiresLockKey + "/container.other": "false",
			},
			cri.Container{MemoryLimit: gib}, both(2 * gib),
		},
		"no annotations": {nil, cri.Container{MemoryLimit: gib}, both(8 * mib)},
	} {
		t.Run(name, func(t *testing.T) {
			i := f.run(t, launcher(test.annotations), test.container)
			if got := f.memlock(t, i); got != test.want {
				t.Errorf("the kernel has %s, want %s", got, test.want)
			}
		})
	}
}

func TestCoreUnlimitedArrives(t *testing.T) {
	claim(t, "An unlimited memory lock, within a finite memory limit")
	f := setUp(t)
	p := launcher(map[string]string{api.RequiresLockKey: "true", api.ValueKey: "unlimited"})
	i := f.run(t, p, cri.Container{MemoryLimit: 2 * gib})
	if got := f.memlock(t, i); got != "unlimited unlimited" {
		t.Errorf("the kernel has %s", got)
	}
}

func TestCoreMemlockOfLaterProcesses(t *testing.T) {
	claim(t, "Processes started later have the launcher's memory lock")
	f := setUp(t)
	p := launcher(map[string]string{api.RequiresLockKey: "true", api.ValueKey: "3Gi"})
	i := f.run(t, p, cri.Container{MemoryLimit: gib})
	limits, err := i.Exec(t.Context(), "grep", "locked", "/proc/self/limits")
	if err != nil || strings.Count(limits, "4294967296") != 2 {
		t.Errorf("an exec in the container has %q, %v, want 4 GiB twice", limits, err)
	}
}

func TestCoreOtherContainersStayUnchanged(t *testing.T) {
	claim(t, "Other containers of a launcher's pod stay unchanged")
	f := setUp(t)
	s := f.sandbox(t, launcher(map[string]string{api.RequiresLockKey: "true", api.ValueKey: "1Gi"}))
	for name, want := range map[string]string{"compute": both(2 * gib), "sidecar": both(8 * mib)} {
		i, err := s.Run(t.Context(), cri.Container{Name: name, MemoryLimit: gib})
		if err != nil {
			t.Fatal(err)
		}
		if got := f.memlock(t, i); got != want {
			t.Errorf("%s has %s, want %s", name, got, want)
		}
	}
}

func TestLauncherByAnnotation(t *testing.T) {
	f := setUp(t)
	p := plain()
	p.Annotations = map[string]string{api.LauncherKey: "compute", api.RequiresLockKey: "true",
		api.ValueKey: "1Gi"}
	i := f.run(t, p, cri.Container{MemoryLimit: gib})
	if got, want := f.memlock(t, i), both(2*gib); got != want {
		t.Errorf("the kernel has %s, want %s", got, want)
	}
}

func TestCorePlainPodStaysUnchanged(t *testing.T) {
	claim(t, "A plain pod stays unchanged, whatever its annotations")
	f := setUp(t)
	f.checkUntouched(t, map[string]string{api.RequiresLockKey: "true", api.ValueKey: "1Gi"})
}

func TestPlainPodsStayUnchanged(t *testing.T) {
	f := setUp(t)
	for name, annotations := range map[string]map[string]string{
		"without annotations":    nil,
		"with wrong annotations": {api.ValueKey: "1e30", "nonsense.mooring.dev": "x"},
	} {
		t.Run(name, func(t *testing.T) { f.checkUntouched(t, annotations) })
	}
}

func (f fixture) checkUntouched(t *testing.T, annotations map[string]string) {
	t.Helper()
	p := plain()
	p.Annotations = annotations
	i := f.run(t, p, cri.Container{MemoryLimit: gib})
	if got, want := f.memlock(t, i), both(8*mib); got != want {
		t.Errorf("the kernel has %s, want %s", got, want)
	}
	if _, err := i.Exec(t.Context(), "ls", "/run/mooring"); err == nil {
		t.Error("the pod directory is mounted")
	}
}

func TestCoreRefusalHasReason(t *testing.T) {
	claim(t, "A launcher beyond the policy is refused, and kubelet gets the reason")
	f := setUp(t)
	p := launcher(map[string]string{api.RequiresLockKey: "true", api.ValueKey: "64Gi"})
	f.checkRefused(t, p, gib, []string{api.ValueKey, `"64Gi"`, `rule "tenants"`, "16Gi"})
}

func TestRefusalsHaveReasons(t *testing.T) {
	f := setUp(t)
	required := map[string]string{api.RequiresLockKey: "true"}
	for name, test := range map[string]struct {
		namespace   string
		annotations map[string]string
		limit       int64
		want        []string
	}{
		"bad quantity": {
			"", with(required, map[string]string{api.ValueKey: "1e30"}), gib,
			[]string{api.ValueKey, `"1e30"`, "quantity such as 4Gi"},
		},
		"negative quantity": {
			"", with(required, map[string]string{api.ValueKey: "-1Gi"}), gib,
			[]string{api.ValueKey, `"-1Gi"`},
		},
		"unknown key": {
			"", map[string]string{"memlok.mooring.dev": "1Gi"}, gib,
			[]string{"memlok.mooring.dev", "unknown"},
		},
		"newer contract": {
			"", map[string]string{api.APIVersionKey: "v2"}, gib,
			[]string{api.APIVersionKey, `"v2"`, "v1alpha1"},
		},
		"unlimited where the rule does not allow it": {
			"modest-vms", with(required, map[string]string{api.ValueKey: "unlimited"}), gib,
			[]string{"unlimited", `rule "modest"`},
		},
		"unlimited without a memory limit": {
			"", with(required, map[string]string{api.ValueKey: "unlimited"}), 0,
			[]string{"unlimited", "memory limit"},
		},
		"namespace without a rule": {
			"elsewhere", with(required, map[string]string{api.ValueKey: "1Gi"}), gib,
			[]string{"elsewhere", "no rule"},
		},
		"cgroup file that the rule does not list": {
			"", map[string]string{"memory.min" + api.CgroupSuffix: "1Gi"}, gib,
			[]string{"memory.min", `rule "tenants"`},
		},
		"memory.max": {
			"", map[string]string{"memory.max" + api.CgroupSuffix: "1Gi"}, gib,
			[]string{"memory.max", "resources.limits.memory"},
		},
		"no input for the limit": {
			"", required, 0, []string{api.GuestMemoryKey, "memory limit"},
		},
		"ulimit-adjuster asks for the same limit": {
			"", with(required, map[string]string{
				api.ValueKey: "1Gi",
				"ulimits.noderesource.dev/container.compute": "- type: memlock\n  hard: 1\n  " +
					"soft: 1\n",
			}), gib,
			[]string{"ulimits.noderesource.dev/container.compute", "ulimit-adjuster"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := launcher(test.annotations)
			if test.namespace != "" {
				p.Namespace = test.namespace
			}
			f.checkRefused(t, p, test.limit, test.want)
		})
	}
}

// checkRefused checks the error for kubelet, and the launcher's state in the agent.
func (f fixture) checkRefused(t *testing.T, p cri.Pod, limit int64, reasons []string) {
	t.Helper()
	msg := f.refused(t, p, cri.Container{MemoryLimit: limit})
	for _, want := range reasons {
		if !strings.Contains(msg, want) {
			t.Errorf("the message lacks %q: %s", want, msg)
		}
	}
	if l := f.inspect(t, p); l.State != agentapi.StateRefused || l.Refusal == "" {
		t.Errorf("the agent shows state %s and refusal %q", l.State, l.Refusal)
	}
}

func TestNodeCeilingCountsLaunchers(t *testing.T) {
	f := setUp(t)
	want := map[string]string{api.RequiresLockKey: "true"}
	var first *cri.Sandbox
	for n := range 2 { // 2 x 16Gi of 40Gi
		s := f.sandbox(t, launcher(want))
		if _, err := s.Create(t.Context(), cri.Container{Name: "compute",
			MemoryLimit: 16 * gib}); err != nil {
			t.Fatalf("launcher %d: %v", n, err)
		}
		if first == nil {
			first = s
		}
	}
	p := launcher(want)
	if msg := f.refused(t, p, cri.Container{MemoryLimit: 16 * gib}); !strings.Contains(msg,
		"nodeMax") {
		t.Errorf("the message does not name the node's ceiling: %s", msg)
	}
	if err := first.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	again := launcher(want)
	i := f.run(t, again, cri.Container{MemoryLimit: 16 * gib})
	if got := f.memlock(t, i); got != both(16*gib) {
		t.Errorf("after one launcher was removed the next has %s", got)
	}
}

func TestInspectShowsAllValues(t *testing.T) {
	f := setUp(t)
	p := launcher(map[string]string{api.GuestMemoryKey: "2Gi", api.DevicesKey: "vfio=1"})
	f.run(t, p, cri.Container{MemoryLimit: 4 * gib})
	s := f.awaitSetting(t, p, agentapi.MemlockSetting, agentapi.StatusApplied)
	if s.Requested != "3Gi" || s.Allowed != "16Gi" || s.Given != "3Gi" || s.Observed != "3Gi" {
		t.Errorf("requested %s, allowed %s, given %s, observed %s", s.Requested, s.Allowed, s.Given,
			s.Observed)
	}
	if len(s.Terms) != 2 {
		t.Errorf("terms %v, want the guest's memory and libvirt's allowance", s.Terms)
	}
	for _, args := range [][]string{{"inspect", p.Namespace + "/" + p.Name}, {"inspect", p.UID},
		{"inspect", p.Name, "-o", "json"}, {"ps"}} {
		out, err := f.agent.CLI(t.Context(), args...)
		if err != nil || !strings.Contains(out, p.Name) || !strings.Contains(out, "3Gi") {
			t.Errorf("mooring %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}
