package suite

import (
	"context"
	"fmt"
	"testing"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
)

// heartbeatScript keeps the pod's heartbeat fresh, beside the launcher process.
const heartbeatScript = `/run/mooring/hook heartbeat --interval 1s & beat=$!`

// The agent reports a living launcher without heartbeats. With the policy `hung: stop` it stops
// the VM, but not before the end of a lease.
func TestHungLauncher(t *testing.T) {
	t.Run("reported", func(t *testing.T) {
		f := setUpVMs(t)
		v := f.runWithHeartbeats(t, placements()[:1])[0]
		f.hangLaunchers(t, v)
		f.awaitEvent(t, v.pod, agentapi.ReasonLauncherHung)
		f.neverReported(t, v.pod, agentapi.ReasonVMTerminated)
		f.checkBothAlive(t, v)
	})
	t.Run("stopped", func(t *testing.T) {
		f := setUpVMsWith(t, "  hung: stop\n")
		vms := f.runWithHeartbeats(t, append(placements(), placements()[0]))
		leased := vms[len(vms)-1]
		leased.name += ", with a lease"
		f.cli(t, "lease", leased.pod.Namespace+"/"+leased.pod.Name, "--for=1h",
			"--reason=migration to node-2")
		f.hangLaunchers(t, vms...)
		for _, v := range vms[:len(vms)-1] {
			t.Run(v.name, func(t *testing.T) { f.awaitHungEnd(t, v) })
		}
		f.neverReported(t, leased.pod, agentapi.ReasonLauncherHung)
		f.checkBothAlive(t, leased)
		f.cli(t, "lease", leased.pod.Namespace+"/"+leased.pod.Name, "--release")
		t.Run(leased.name, func(t *testing.T) { f.awaitHungEnd(t, leased) })
	})
}

// runWithHeartbeats runs launchers with a heartbeat and a VM.
func (f fixture) runWithHeartbeats(t *testing.T, at []placement) []*vm {
	t.Helper()
	vms := f.runLaunchers(t, at, vmOptions{annotations: map[string]string{api.WatchdogKey: "20s"}})
	each(t, vms, func(ctx context.Context, v *vm) error {
		return f.sendLine(ctx, v, heartbeatScript)
	})
	for _, v := range vms {
		f.awaitHeartbeat(t, v)
	}
	each(t, vms, func(ctx context.Context, v *vm) error { return f.start(ctx, v, asChild) })
	for _, v := range vms {
		f.awaitVM(t, v, agentapi.VMRunning)
	}
	return vms
}

// awaitHeartbeat waits until the agent has noticed a fresh heartbeat.
func (f fixture) awaitHeartbeat(t *testing.T, v *vm) {
	t.Helper()
	var last *agentapi.Heartbeat
	eventually(t, "a heartbeat", func() bool {
		last = f.inspect(t, v.pod).Heartbeat
		return last != nil && last.Age != nil && !last.Expired
	}, func() string { return fmt.Sprintf("%+v", last) })
}

// hangLaunchers ends the heartbeats, and stops the launcher processes with SIGSTOP.
func (f fixture) hangLaunchers(t *testing.T, vms ...*vm) {
	t.Helper()
	each(t, vms, func(ctx context.Context, v *vm) error {
		if err := f.sendLine(ctx, v, `kill "$beat"; wait "$beat"; : >/tmp/silent`); err != nil {
			return err
		}
		if err := f.awaitFile(ctx, v, "/tmp/silent"); err != nil {
			return err
		}
		return f.signal(ctx, "STOP", v.launcherProcess)
	})
}

func (f fixture) awaitHungEnd(t *testing.T, v *vm) {
	t.Helper()
	f.awaitEvent(t, v.pod, agentapi.ReasonLauncherHung)
	f.awaitEnd(t, v.vmProcess)
	if !f.isAlive(t, v.launcherProcess) {
		t.Error("the launcher process has ended")
	}
}

// cli runs the command-line tool on the node and returns its output.
func (f fixture) cli(t *testing.T, args ...string) string {
	t.Helper()
	out, err := f.agent.CLI(t.Context(), args...)
	if err != nil {
		t.Fatalf("mooring %v: %v: %s", args, err, out)
	}
	return out
}
