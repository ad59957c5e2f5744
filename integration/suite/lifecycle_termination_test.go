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

// preStop is the path of the hook in a launcher.
const preStop = "/run/mooring/hook"

// termination is the course of a pod's end.
type termination struct {
	hook    error // nil: confirmed
	vmAlive bool  // the VM lived when the hook had ended
	done    atomic.Bool
}

// Kubelet runs the hook, and then stops the container. The hook succeeds only after the end of
// the VM.
func TestCorePodTermination(t *testing.T) {
	claim(t, "The VM of a deleted pod shuts down first")
	underFaults(t, func(t *testing.T, f fixture, x fault) {
		vms := f.runAllPlacements(t, vmOptions{script: careless})
		f.terminate(t, vms, x)
	}, noFault, agentKilled, agentAway)
}

// A launcher that ignores SIGTERM does not keep its VM running.
func TestStubbornLauncher(t *testing.T) {
	underFaults(t, func(t *testing.T, f fixture, x fault) {
		f.terminate(t, f.runAllPlacements(t, vmOptions{script: stubborn}), x)
	}, noFault)
}

// Kubelet ends all pods of the node at the same time. Afterwards the VMs in other cgroups are
// gone, too.
func TestClusterShutdown(t *testing.T) {
	underFaults(t, func(t *testing.T, f fixture, x fault) {
		vms := append(f.runAllPlacements(t, vmOptions{}),
			f.runVMs(t, placements()[1:3], vmOptions{start: asDaemon})...)
		for _, v := range vms[4:] {
			v.name += ", daemon elsewhere"
			f.moveElsewhere(t, v)
		}
		f.terminate(t, vms, x)
	}, noFault, agentKilled)
}

// terminate ends pods, with a fault in the middle. It checks that no VM outlives its pod, and
// that no hook reports the end of a VM too early.
func (f fixture) terminate(t *testing.T, vms []*vm, x fault) {
	t.Helper()
	for _, v := range vms {
		f.awaitVM(t, v, agentapi.VMRunning)
	}
	end := x.prepare(t, f)
	defer end()
	ends := map[*vm]*termination{}
	for _, v := range vms {
		ends[v] = &termination{}
	}
	done := inBackground(t, vms, func(ctx context.Context, v *vm) error {
		return f.terminateOne(ctx, v, x, ends[v])
	})
	if x.middle != nil {
		f.awaitStopRequests(t, ends)
	}
	x.inject(t, f)
	done()
	end()
	for _, v := range vms {
		t.Run(v.name, func(t *testing.T) {
			f.awaitEnd(t, v.launcherProcess)
			f.awaitEnd(t, v.vmProcess)
			checkTermination(t, ends[v], x)
			if x.losesEvents || x.failsRequests {
				return
			}
			f.awaitEvent(t, v.pod, agentapi.ReasonStopRequested)
			f.awaitEvent(t, v.pod, agentapi.ReasonStopConfirmed)
			if v.libvirt { // in a pod, the hook's command shuts the guest down
				f.awaitEvent(t, v.pod, agentapi.ReasonVMShutdown)
			}
		})
	}
}

func checkTermination(t *testing.T, end *termination, x fault) {
	t.Helper()
	switch {
	case x.withoutAgent && end.hook == nil:
		t.Error("the hook succeeded without an agent that confirms")
	case !x.withoutAgent && !x.failsRequests && end.hook != nil:
		t.Errorf("the hook ended with %v", end.hook)
	case end.hook == nil && end.vmAlive:
		t.Error("the hook succeeded while the VM was alive")
	}
}

// stopGrace bounds the time of a launcher after SIGTERM. A launcher that ignores SIGTERM uses
// all of it.
const stopGrace = 10 * time.Second

// grace returns a pod's grace period. It is long enough for a busy node, and short without an
// agent.
func (x fault) grace() time.Duration {
	if x.withoutAgent {
		return 20 * time.Second
	}
	return time.Minute
}

// terminateOne ends a pod as kubelet does. Between hook and stop signal it checks whether the VM
// is alive.
func (f fixture) terminateOne(ctx context.Context, v *vm, x fault, end *termination) error {
	defer end.done.Store(true)
	var left time.Duration
	left, end.hook = v.launcher.PreStop(ctx, x.grace(), preStop, "prestop")
	left = min(left, stopGrace)
	if end.hook == nil {
		_, err := f.Output(ctx, "sh", "-c", isAliveScript, "sh", itoa(v.vmProcess.pid),
			fmt.Sprint(v.vmProcess.start))
		end.vmAlive = err == nil
	}
	for { // kubelet retries, too
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

// isAliveScript succeeds for a process that has not ended. See isAlive.
const isAliveScript = `set -- $2 $(sed 's/.*) //' "/proc/$1/stat") && [ "${21}" = "$1" ] && [ ` +
	`"$2" != Z ]`

// awaitStopRequests waits until each hook has sent its stop request or has ended.
func (f fixture) awaitStopRequests(t *testing.T, ends map[*vm]*termination) {
	t.Helper()
	for v, end := range ends {
		eventually(t, "the stop request of pod "+v.pod.Name, func() bool {
			touched, err := f.Output(t.Context(), "stat", "-c", "%Y", podDir(v.pod)+"/pod/stop")
			return end.done.Load() || err == nil && touched != "0"
		}, func() string { return "no stop request" })
	}
}

// inBackground calls do for all VMs concurrently. The returned function waits for the end.
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

// Without an agent, the hook waits until the end of the grace period.
func TestHookWithoutTheAgent(t *testing.T) {
	f := setUpVMs(t)
	v := f.runVM(t, placements()[2], vmOptions{})
	defer f.killAgent(t)()
	_, err := v.launcher.PreStop(t.Context(), 5*time.Second, preStop, "prestop")
	if !errors.Is(err, cri.ErrHookUnfinished) {
		t.Errorf("the hook ended with %v, want it to wait for the agent", err)
	}
	if !f.isAlive(t, v.vmProcess) {
		t.Error("the VM has ended")
	}
}

// The hook's command ends the VM through the libvirt of the pod. The agent sends no signal.
func TestHookEndsTheVM(t *testing.T) {
	f := setUpVMs(t)
	v := f.runInPod(t, placements()[2], vmOptions{})
	f.awaitVM(t, v, agentapi.VMRunning)
	command := inPod + "exec virsh -q -c qemu:///session destroy " + v.domain()
	if _, err := v.launcher.PreStop(t.Context(), time.Minute, preStop, "prestop", "--", "sh", "-c",
		command); err != nil {
		t.Errorf("the hook ended with %v", err)
	}
	f.awaitEnd(t, v.vmProcess)
	f.awaitEvent(t, v.pod, agentapi.ReasonStopConfirmed)
	f.neverReported(t, v.pod, agentapi.ReasonVMTerminated)
}
