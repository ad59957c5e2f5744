package plugin_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	nri "github.com/containerd/nri/pkg/api"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide"
	"github.com/mooring-vm/mooring/decide/decidetest"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

// launchVM starts a launcher with a VM process.
func (n *node) launchVM(t *testing.T, pod *nri.PodSandbox, pid int) (*nri.Container, host.Process) {
	t.Helper()
	ctr := newContainer(pod, "compute")
	_, err := n.create(pod, ctr)
	must(t, err)
	n.start(ctr, pid, host.Rlimit{Soft: gi, Hard: gi})
	must(t, n.PostStartContainer(context.Background(), pod, ctr))
	vm := n.kernel.Start(pid+1, cgroupOf(ctr), host.Rlimit{Soft: gi, Hard: gi})
	n.registry.Update(ctr.GetId(), func(l *registry.Launcher) {
		l.VMs = []agentapi.VM{{PID: vm.PID, StartTime: vm.Ticks(), State: agentapi.VMRunning}}
	})
	return ctr, vm
}

func update(n *node, pod *nri.PodSandbox, ctr *nri.Container, memory, quota int64) error {
	r := &nri.LinuxResources{
		Memory: &nri.LinuxMemory{Limit: nri.Int64(memory)},
		Cpu:    &nri.LinuxCPU{Quota: nri.Int64(quota), Period: nri.UInt64(100000)},
	}
	_, err := n.UpdateContainer(context.Background(), pod, ctr, r)
	return err
}

// A VM whose requirement is unknown keeps its memory limit. Raises and CPU limits pass.
func TestUpdateWithAnUnknownMemoryRequirement(t *testing.T) {
	n := newNode(t, policy.Enforce)
	pod := newPod("u1", nil)
	ctr, vm := n.launchVM(t, pod, 100)
	must(t, update(n, pod, ctr, 2*gi, 0))
	n.registry.Update(ctr.GetId(), func(l *registry.Launcher) {
		l.SetMemoryRequirement(vm, registry.UnknownRequirement)
	})
	for _, memory := range []int64{2 * gi, 0, 3 * gi} {
		must(t, update(n, pod, ctr, memory, 150000))
	}
	if err := update(n, pod, ctr, 2*gi, 0); err == nil || !strings.Contains(err.Error(),
		"to 2Gi: the memory requirement of its VM is unknown") {
		t.Errorf("a limit below the present one: %v, want a refusal", err)
	}
	must(t, update(n, pod, ctr, -1, 0))
	if err := update(n, pod, ctr, 4*gi, 0); err == nil {
		t.Error("a limit instead of none passes, want a refusal")
	}
}

// A memory limit below the requirement of this launcher's VM is refused, and recorded all the same.
func TestUpdateBelowTheMemoryRequirement(t *testing.T) {
	n := newNode(t, policy.Enforce)
	pod, other := newPod("u1", nil), newPod("u2", nil)
	ctr, vm := n.launchVM(t, pod, 100)
	otherCtr, _ := n.launchVM(t, other, 200)
	n.registry.Update(ctr.GetId(), func(l *registry.Launcher) { l.SetMemoryRequirement(vm, 3*gi) })

	err := update(n, pod, ctr, 2*gi, 150000)
	if refusal, ok := errors.AsType[*decide.Refusal](err); !ok || !strings.Contains(err.Error(),
		`container "compute" of pod trusted/vm-u1 to 2Gi: its VM needs 3Gi`) {
		t.Errorf("error %v (%T), want a refusal that names need and limit", err, refusal)
	}
	if got := n.launcher(t, pod).Limits; got !=
		(registry.ContainerLimits{Memory: 2 * gi, CPU: 1500}) {
		t.Errorf("limits that are wanted: %+v", got)
	}
	must(t, update(n, pod, ctr, 3*gi, 150000))
	must(t, update(n, pod, ctr, 0, 50000)) // of the CPU alone
	must(t, update(n, pod, ctr, -1, -1))
	must(t, update(n, other, otherCtr, 1, 0))
	must(t, update(n, pod, newContainer(pod, "sidecar"), 1, 0))
	if got := n.launcher(t, pod).Limits; got != (registry.ContainerLimits{}) {
		t.Errorf("limits after they were taken away: %+v", got)
	}
	n.registry.Update(ctr.GetId(), func(l *registry.Launcher) { l.VMs = nil })
	must(t, update(n, pod, ctr, gi, 0))
}

// A refused limit does not free the node's account, because the cgroup keeps the limit in force. A
// later request without memory does not accept it, and the return to the old limit costs nothing.
func TestAccountKeepsTheLimitInForce(t *testing.T) {
	n := newNode(t, policy.Enforce)
	pod, other := newPod("u1", decidetest.VFIO()), newPod("u2", decidetest.VFIO())
	ctr, vm := n.launchVM(t, pod, 100)
	must(t, update(n, pod, ctr, 40*gi, 0))
	n.registry.Update(ctr.GetId(), func(l *registry.Launcher) {
		l.SetMemoryRequirement(vm, 30*gi)
	})
	if err := update(n, pod, ctr, 10*gi, 0); err == nil {
		t.Error("the limit may fall below the requirement")
	}
	must(t, update(n, pod, ctr, 0, 50000)) // of the CPU alone
	expect := func(desired, inForce int64) {
		t.Helper()
		l := n.launcher(t, pod)
		if l.Limits.Memory != desired || n.registry.Account().Granted != inForce {
			t.Errorf("desired limit %d, account %d, want %d and %d", l.Limits.Memory,
				n.registry.Account().Granted, desired, inForce)
		}
	}
	expect(10*gi, 40*gi)
	must(t, n.GrantLock(ctr.GetId(), vm, 20*gi))
	if _, err := n.create(other, withMemory(newContainer(other, "compute"), 25*gi)); err == nil ||
		!strings.Contains(err.Error(), "others have 40Gi") {
		t.Errorf("error %v, want one about the account with 40Gi", err)
	}
	_, err := n.create(other, withMemory(newContainer(other, "compute"), 24*gi))
	must(t, err)
	must(t, update(n, pod, ctr, 40*gi, 0))
	expect(40*gi, 64*gi)
	must(t, update(n, pod, ctr, 30*gi, 0))
	expect(30*gi, 54*gi)
}

func TestUpdateInObserveMode(t *testing.T) {
	n := newNode(t, policy.Observe)
	pod := newPod("u1", nil)
	ctr, vm := n.launchVM(t, pod, 100)
	n.registry.Update(ctr.GetId(), func(l *registry.Launcher) { l.SetMemoryRequirement(vm, 3*gi) })
	must(t, update(n, pod, ctr, 2*gi, 0))
	events := n.recorder.Events()
	if last := events[len(events)-1]; last.Reason != agentapi.ReasonWouldRefuse ||
		!strings.Contains(last.Message, "to 2Gi: its VM needs 3Gi") {
		t.Errorf("Event %+v, want %s", last, agentapi.ReasonWouldRefuse)
	}
}
