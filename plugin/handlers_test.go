package plugin_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	nri "github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide"
	"github.com/mooring-vm/mooring/decide/decidetest"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/plugin"
)

// must fails the test on an error of a handler.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// create requests the creation of a container.
func (n *node) create(pod *nri.PodSandbox, ctr *nri.Container) (*nri.ContainerAdjustment, error) {
	adjust, _, err := n.CreateContainer(context.Background(), pod, ctr)
	return adjust, err
}

func TestLauncherLifecycle(t *testing.T) {
	ctx := context.Background()
	n := newNode(t, policy.Enforce)
	pod := newPod("u1", decidetest.VFIO())
	ctr := newContainer(pod, "compute")

	must(t, n.RunPodSandbox(ctx, pod))
	adjust, err := n.create(pod, ctr)
	must(t, err)
	if r := adjust.GetRlimits(); len(r) != 1 || r[0].GetSoft() != 5*gi || r[0].GetHard() != 5*gi {
		t.Errorf("rlimits = %v, want 5Gi, soft and hard", r)
	}
	n.checkState(t, pod, agentapi.StateCreating)
	must(t, n.PostCreateContainer(ctx, pod, ctr))
	n.checkState(t, pod, agentapi.StateCreated)
	must(t, n.StartContainer(ctx, pod, ctr))
	n.start(ctr, 100, host.Rlimit{Soft: 5 * gi, Hard: 5 * gi})
	must(t, n.PostStartContainer(ctx, pod, ctr))
	n.checkState(t, pod, agentapi.StateRunning)
	if l := n.launcher(t, pod); l.Container.PID != 100 || n.registry.Account().Granted != 5*gi {
		t.Errorf("launcher = %+v, account = %+v, want process 100 and 5Gi", l, n.registry.Account())
	}

	// After the loss of its sandbox, the runtime sends only the pod's ID.
	_, err = n.StopContainer(ctx, &nri.PodSandbox{Id: pod.GetId()}, ctr)
	must(t, err)
	n.checkState(t, pod, agentapi.StateStopped)
	if a := n.registry.Account(); a.Granted != 0 {
		t.Errorf("account of a stopped launcher = %+v, want nothing", a)
	}
	must(t, n.RemoveContainer(ctx, pod, ctr))
	must(t, n.StopPodSandbox(ctx, pod))
	must(t, n.RemovePodSandbox(ctx, pod))
	if l, dirs := n.registry.List(), n.dirs.list(); len(l)+len(dirs) != 0 {
		t.Errorf("left behind: %v, %v", l, dirs)
	}
}

func TestRefusedLauncherStaysUntilItsPodIsRemoved(t *testing.T) {
	ctx := context.Background()
	n := newNode(t, policy.Enforce)
	pod := newPod("u1", map[string]string{api.GuestMemoryKey: "lots"})
	ctr := newContainer(pod, "compute")
	_, err := n.create(pod, ctr)
	if _, ok := errors.AsType[*decide.Refusal](err); !ok {
		t.Fatalf("error = %v, want a refusal", err)
	}
	// containerd cleans up after a failed creation.
	_, err = n.StopContainer(ctx, pod, ctr)
	must(t, err)
	must(t, n.RemoveContainer(ctx, pod, ctr))
	if l := n.launcher(t, pod); l.State != agentapi.StateRefused ||
		!strings.Contains(l.Refusal, "lots") {
		t.Errorf("launcher = %+v, want refused", l)
	}
	if dirs := n.dirs.list(); len(dirs) != 0 {
		t.Errorf("a refused launcher has a directory: %v", dirs)
	}
	must(t, n.RemovePodSandbox(ctx, pod))
	if l := n.registry.List(); len(l) != 0 {
		t.Errorf("left behind: %v", l)
	}
}

func TestRetryReplacesRefusal(t *testing.T) {
	n := newNode(t, policy.Enforce)
	big := newPod("big", decidetest.Lock("32Gi"))
	other := newPod("other", decidetest.Lock("32Gi"))
	late := newPod("late", decidetest.Lock("1Gi"))
	for _, pod := range []*nri.PodSandbox{big, other} {
		_, err := n.create(pod, newContainer(pod, "compute"))
		must(t, err)
	}
	ctr := newContainer(late, "compute")
	if _, err := n.create(late, ctr); err == nil || !strings.Contains(err.Error(), "nodeMax") {
		t.Fatalf("error = %v, want one about memlock.nodeMax", err)
	}
	_, err := n.StopContainer(context.Background(), big, newContainer(big, "compute"))
	must(t, err)
	ctr.Id = "second-try"
	_, err = n.create(late, ctr)
	must(t, err)
	n.checkState(t, late, agentapi.StateCreating)
	if a := n.registry.Account(); a.Granted != 33*gi {
		t.Errorf("account = %+v, want 33Gi", a)
	}
}

func TestPodDirectoryCannotBeCreated(t *testing.T) {
	n := newNode(t, policy.Enforce)
	n.dirs.fail = errFull
	pod := newPod("u1", decidetest.VFIO())
	if _, err := n.create(pod, newContainer(pod, "compute")); !errors.Is(err, errFull) {
		t.Fatalf("error = %v, want %v", err, errFull)
	}
	n.checkState(t, pod, agentapi.StateRefused)
	if diff := cmp.Diff([]plugin.Outcome{plugin.OutcomeFailed}, n.observer.decided()); diff != "" {
		t.Errorf("outcomes (-want +got):\n%s", diff)
	}
	if a := n.registry.Account(); a.Granted != 0 {
		t.Errorf("account = %+v, want nothing", a)
	}
	if diff := cmp.Diff([]agentapi.Reason{agentapi.ReasonPodDirFailed},
		n.recorder.Reasons()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestObserveModeChangesNothing(t *testing.T) {
	n := newNode(t, policy.Observe)
	good, bad := newPod("good", decidetest.VFIO()),
		newPod("bad", map[string]string{api.GuestMemoryKey: "lots"})
	for _, pod := range []*nri.PodSandbox{good, bad} {
		adjust, err := n.create(pod, newContainer(pod, "compute"))
		if adjust != nil || err != nil {
			t.Errorf("CreateContainer(%s) = %v, %v, want nothing", pod.GetUid(), adjust, err)
		}
	}
	want := []agentapi.Reason{agentapi.ReasonWouldSet, agentapi.ReasonWouldRefuse}
	if diff := cmp.Diff(want, n.recorder.Reasons()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if dirs := n.dirs.list(); len(dirs) != 0 {
		t.Errorf("directories = %v, want none", dirs)
	}
}

func TestPlainPods(t *testing.T) {
	ctx := context.Background()
	n := newNode(t, policy.Enforce)
	plain := &nri.PodSandbox{Id: "s", Uid: "u", Namespace: "trusted",
		Annotations: decidetest.VFIO()}
	ctr := newContainer(plain, "compute")
	must(t, n.RunPodSandbox(ctx, plain))
	adjust, err := n.create(plain, ctr)
	if adjust != nil || err != nil {
		t.Errorf("CreateContainer = %v, %v, want nothing", adjust, err)
	}
	must(t, n.PostCreateContainer(ctx, plain, ctr))
	must(t, n.StartContainer(ctx, plain, ctr))
	must(t, n.PostStartContainer(ctx, plain, ctr))
	updates, err := n.UpdateContainer(ctx, plain, ctr, nil)
	if updates != nil || err != nil {
		t.Errorf("UpdateContainer = %v, %v, want nothing", updates, err)
	}
	if l := n.registry.List(); len(l) != 0 {
		t.Errorf("registry = %v, want nothing", l)
	}
	// One Event reports the unused annotations.
	if diff := cmp.Diff([]agentapi.Reason{agentapi.ReasonAnnotationInvalid},
		n.recorder.Reasons()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestUpdateContainerRestoresKubeletsFiles(t *testing.T) {
	ctx := context.Background()
	n := newNode(t, policy.Enforce)
	pod := newPod("u1", map[string]string{
		"cpu.max" + api.CgroupSuffix: "150000 100000", "memory.high" + api.CgroupSuffix: "1Gi",
	})
	ctr := newContainer(pod, "compute")
	_, err := n.create(pod, ctr)
	must(t, err)
	updates, err := n.UpdateContainer(ctx, pod, ctr, &nri.LinuxResources{})
	must(t, err)
	if len(updates) != 1 || updates[0].GetContainerId() != ctr.GetId() {
		t.Fatalf("updates = %v, want one of the container", updates)
	}
	r := updates[0].GetLinux().GetResources()
	if r.GetCpu().GetQuota().GetValue() != 150000 || r.GetCpu().GetPeriod().GetValue() != 100000 {
		t.Errorf("cpu = %v, want 150000 of 100000", r.GetCpu())
	}
	if diff := cmp.Diff(map[string]string{"cpu.max": "150000 100000"}, r.GetUnified()); diff != "" {
		t.Errorf("unified (-want +got):\n%s", diff)
	}
}

func TestRemovalOfTheOlderSandbox(t *testing.T) {
	ctx := context.Background()
	n := newNode(t, policy.Enforce)
	old := newPod("u1", decidetest.VFIO())
	_, err := n.create(old, newContainer(old, "compute"))
	must(t, err)
	renewed := newPod("u1", decidetest.VFIO())
	renewed.Id = "sandbox-new"
	ctr := newContainer(renewed, "compute")
	ctr.Id = "id-new"
	_, err = n.create(renewed, ctr)
	must(t, err)

	must(t, n.RemoveContainer(ctx, old, newContainer(old, "compute")))
	must(t, n.StopPodSandbox(ctx, old))
	must(t, n.RemovePodSandbox(ctx, old))
	n.checkState(t, renewed, agentapi.StateCreating)
	if len(n.dirs.list()) == 0 {
		t.Error("the directory of the pod's new sandbox was discarded")
	}
}

func TestEventOfUnknownLauncherRegistersIt(t *testing.T) {
	ctx := context.Background()
	events := map[string]func(*node, *nri.PodSandbox, *nri.Container) error{
		"PostCreateContainer": func(n *node, p *nri.PodSandbox, c *nri.Container) error {
			return n.PostCreateContainer(ctx, p, c)
		},
		"StartContainer": func(n *node, p *nri.PodSandbox, c *nri.Container) error {
			return n.StartContainer(ctx, p, c)
		},
		"PostStartContainer": func(n *node, p *nri.PodSandbox, c *nri.Container) error {
			return n.PostStartContainer(ctx, p, c)
		},
		"PostUpdateContainer": func(n *node, p *nri.PodSandbox, c *nri.Container) error {
			return n.PostUpdateContainer(ctx, p, c)
		},
		"UpdateContainer": func(n *node, p *nri.PodSandbox, c *nri.Container) error {
			_, err := n.UpdateContainer(ctx, p, c, nil)
			return err
		},
	}
	for name, event := range events {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, policy.Enforce)
			pod := newPod("u1", decidetest.VFIO())
			ctr := newContainer(pod, "compute")
			n.start(ctr, 100, host.Rlimit{})
			must(t, event(n, pod, ctr))
			given := n.launcher(t, pod).Given
			if given.Memlock == nil || *given.Memlock != 5*gi ||
				given.VMLock == nil || *given.VMLock != 5*gi {
				t.Errorf("got %+v, want 5Gi for the launcher and its VM", given)
			}
		})
	}
}

func TestExistingLauncherIsNeverRefused(t *testing.T) {
	n := newNode(t, policy.Enforce)
	pod := newPod("u1", map[string]string{api.GuestMemoryKey: "lots"})
	ctr := newContainer(pod, "compute")
	n.start(ctr, 100, host.Rlimit{})
	must(t, n.StartContainer(context.Background(), pod, ctr))
	l := n.launcher(t, pod)
	if l.State == agentapi.StateRefused || l.Refusal == "" || l.Given.Memlock != nil {
		t.Errorf("launcher = %+v, want a running one with a refusal and no settings", l)
	}
	events := n.recorder.Events()
	if len(events) != 1 ||
		!strings.Contains(events[0].Message, "it runs although it would be refused") {
		t.Errorf("events = %+v", events)
	}
}

// A restarted agent finds the limit from its predecessor in the spec.
func TestAdoptedLauncherWithItsLimit(t *testing.T) {
	n := newNode(t, policy.Enforce)
	requests := decidetest.VFIO()
	requests["ulimits.noderesource.dev/container.compute"] = "- {type: memlock, soft: 1, hard: 1}"
	for name, limit := range map[string]uint64{"as given": 5 * gi, "too low": gi} {
		pod := newPod(name, requests)
		ctr := newContainer(pod, "compute")
		ctr.Rlimits = []*nri.POSIXRlimit{{Type: "RLIMIT_MEMLOCK", Soft: limit, Hard: limit}}
		n.start(ctr, 100, host.Rlimit{})
		must(t, n.PostStartContainer(context.Background(), pod, ctr))
		l := n.launcher(t, pod)
		if l.Refusal != "" || l.Settings[0].Status != agentapi.StatusPending ||
			l.Given.Memlock == nil {
			t.Errorf("%s: launcher = %+v, want one whose limit is to be checked", name, l)
		}
	}
	if events := n.recorder.Events(); len(events) != 0 {
		t.Errorf("events = %+v, want none", events)
	}
}
