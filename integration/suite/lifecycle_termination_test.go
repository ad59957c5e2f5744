package suite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/integration/cri"
)

// preStop is the hook of a launcher as its pod names it.
const preStop = "/run/mooring/hook"

// termination is how a pod's end went.
type termination struct {
	hook        error // nil: confirmed
	livedOnward bool  // the VM lived when the hook had ended
	done        atomic.Bool
}

// TestCorePodTermination: the kubelet runs the hook, and stops the container after it.
// The hook ends well once the VM is gone, and not before.
func TestCorePodTermination(t *testing.T) {
	claim(t, "The VM of a deleted pod shuts down first")
	underFaults(t, func(t *testing.T, f fixture, x fault) {
		vms := f.fleet(t, want{owner: careless})
		f.terminate(t, vms, x)
	}, noFault, agentKilled, agentAway)
}

// TestStubbornLauncher: an owner that does not answer SIGTERM keeps nobody.
func TestStubbornLauncher(t *testing.T) {
	underFaults(t, func(t *testing.T, f fixture, x fault) {
		f.terminate(t, f.fleet(t, want{owner: stubborn}), x)
	}, noFault)
}

// TestClusterShutdown drains the node: all pods end at the same time, each as
// kubelet ends it, and then the VMs that had been moved about are gone, too.
func TestClusterShutdown(t *testing.T) {
	underFaults(t, func(t *testing.T, f fixture, x fault) {
		vms := append(f.fleet(t, want{}), f.runVMs(t, placements()[1:3], want{start: asDaemon})...)
		for _, v := range vms[4:] {
			v.name += ", daemon elsewhere"
			f.moveElsewhere(t, v)
		}
		f.terminate(t, vms, x)
	}, noFault, agentKilled)
}

// terminate ends pods, with a fault in the middle, and checks that no VM outlives
// its pod, and that nobody is told so before it is true.
func (f fixture) terminate(t *testing.T, vms []*vm, x fault) {
	t.Helper()
	for _, v := range vms {
		f.awaitVM(t, v, agentapi.VMRunning)
	}
	end := x.begin(t, f)
	defer end()
	ends := map[*vm]*termination{}
	for _, v := range vms {
		ends[v] = &termination{}
	}
	done := inBackground(t, vms, func(ctx context.Context, v *vm) error { return f.terminateOne(ctx, v, x, ends[v]) })
	if x.middle != nil {
		f.awaitBegun(t, ends)
	}
	x.strike(t, f)
	done()
	end()
	for _, v := range vms {
		t.Run(v.name, func(t *testing.T) {
			f.awaitEnd(t, v.owner)
			f.awaitEnd(t, v.process)
			checkTermination(t, ends[v], x)
			if x.forgets || x.disturbs {
				return
			}
			f.awaitEvent(t, v.pod, agentapi.ReasonStopRequested)
			f.awaitEvent(t, v.pod, agentapi.ReasonStopConfirmed)
			if v.libvirt { // in a pod the hook's command asks the guest
				f.awaitEvent(t, v.pod, agentapi.ReasonVMShutdown)
			}
		})
	}
}

func checkTermination(t *testing.T, end *termination, x fault) {
	t.Helper()
	switch {
	case x.away && end.hook == nil:
		t.Error("the hook ended well, and nobody was there to confirm it")
	case !x.away && !x.disturbs && end.hook != nil:
		t.Errorf("the hook ended with %v", end.hook)
	case end.hook == nil && end.livedOnward:
		t.Error("the hook ended well while the VM lived")
	}
}

// stopGrace is what the kubelet leaves an owner at most: one that does not answer
// SIGTERM uses all of it.
const stopGrace = 10 * time.Second

// grace is a pod's grace period: long enough for a busy node, unless nobody is there
// to confirm anything.
func (x fault) grace() time.Duration {
	if x.away {
		return 20 * time.Second
	}
	return time.Minute
}

// terminateOne is what the kubelet does, and a look at the VM between the hook's
// end and the stop signal.
func (f fixture) terminateOne(ctx context.Context, v *vm, x fault, end *termination) error {
	defer end.done.Store(true)
	var left time.Duration
	left, end.hook = v.launcher.PreStop(ctx, x.grace(), preStop, "prestop")
	left = min(left, stopGrace)
	if end.hook == nil {
		_, err := f.Output(ctx, "sh", "-c", livesStill, "sh", itoa(v.process.pid), fmt.Sprint(v.process.start))
		end.livedOnward = err == nil
	}
	for { // the kubelet tries again, too
		err := v.launcher.StopWithin(ctx, left)
		if err == nil || !strings.Contains(err.Error(), "Unavailable") {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		case <-time.After(time.Second):
		}
	}
}

// livesStill succeeds for a process that has not ended; see lives.
const livesStill = `set -- $2 $(sed 's/.*) //' "/proc/$1/stat") && [ "${21}" = "$1" ] && [ "$2" != Z ]`

// awaitBegun waits until each hook has asked, or has ended.
func (f fixture) awaitBegun(t *testing.T, ends map[*vm]*termination) {
	t.Helper()
	for v, end := range ends {
		eventually(t, "the hook of pod "+v.pod.Name+" to ask", func() bool {
			asked, err := f.Output(t.Context(), "stat", "-c", "%Y", podDir(v.pod)+"/pod/stop")
			return end.done.Load() || err == nil && asked != "0"
		}, func() string { return "not asked" })
	}
}

// inBackground does something with all VMs at once. The returned function waits for
// it.
func inBackground(t *testing.T, vms []*vm, do func(context.Context, *vm) error) (wait func()) {
	t.Helper()
	ended := make(chan error, len(vms))
	for _, v := range vms {
		go func() {
			err := do(t.Context(), v)
			if err != nil {
				err = fmt.Errorf("%s: %w", v.name, err)
			}
			ended <- err
		}()
	}
	return func() {
		t.Helper()
		var all error
		for range vms {
			all = errors.Join(all, <-ended)
		}
		if all != nil {
			t.Fatal(all)
		}
	}
}

// TestHookWithoutTheAgent: the kubelet waits no longer than the grace period.
func TestHookWithoutTheAgent(t *testing.T) {
	f := setUpVMs(t)
	v := f.runVM(t, placements()[2], want{})
	defer f.killAgent(t)()
	_, err := v.launcher.PreStop(t.Context(), 5*time.Second, preStop, "prestop")
	if !errors.Is(err, cri.ErrHookUnfinished) {
		t.Errorf("the hook ended with %v, want it to wait for the agent", err)
	}
	if !f.lives(t, v.process) {
		t.Error("the VM has ended")
	}
}

// TestHookEndsTheVM: what the hook's command has ended, by the libvirt of the pod, needs
// no signal.
func TestHookEndsTheVM(t *testing.T) {
	f := setUpVMs(t)
	v := f.runInPod(t, placements()[2], want{})
	f.awaitVM(t, v, agentapi.VMRunning)
	command := inPod + "exec virsh -q -c qemu:///session destroy " + v.domain()
	if _, err := v.launcher.PreStop(t.Context(), time.Minute, preStop, "prestop", "--", "sh", "-c", command); err != nil {
		t.Errorf("the hook ended with %v", err)
	}
	f.awaitEnd(t, v.process)
	f.awaitEvent(t, v.pod, agentapi.ReasonStopConfirmed)
	f.neverTold(t, v.pod, agentapi.ReasonVMTerminated)
}
