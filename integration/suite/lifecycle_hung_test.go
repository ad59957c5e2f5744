package suite

import (
	"context"
	"fmt"
	"testing"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
)

// beats keeps the pod's heartbeat fresh beside the owner.
const beats = `/run/mooring/hook heartbeat --interval 1s & beat=$!`

// TestHungLauncher: an owner that lives and falls silent is told of. What the policy
// lets be done about it waits for the end of a lease.
func TestHungLauncher(t *testing.T) {
	t.Run("reported", func(t *testing.T) {
		f := setUpVMs(t)
		v := f.runBeating(t, placements()[:1])[0]
		f.silence(t, v)
		f.awaitEvent(t, v.pod, agentapi.ReasonLauncherHung)
		f.neverTold(t, v.pod, agentapi.ReasonVMTerminated)
		f.bothLive(t, v)
	})
	t.Run("stopped", func(t *testing.T) {
		f := setUpVMsWith(t, "  hung: stop\n")
		vms := f.runBeating(t, append(placements(), placements()[0]))
		leased := vms[len(vms)-1]
		leased.name += ", with a lease"
		f.cli(t, "lease", leased.pod.Namespace+"/"+leased.pod.Name, "--for=1h", "--reason=migration to node-2")
		f.silence(t, vms...)
		for _, v := range vms[:len(vms)-1] {
			t.Run(v.name, func(t *testing.T) { f.endsAsHung(t, v) })
		}
		f.neverTold(t, leased.pod, agentapi.ReasonLauncherHung)
		f.bothLive(t, leased)
		f.cli(t, "lease", leased.pod.Namespace+"/"+leased.pod.Name, "--release")
		t.Run(leased.name, func(t *testing.T) { f.endsAsHung(t, leased) })
	})
}

// runBeating runs launchers with a heartbeat and a VM.
func (f fixture) runBeating(t *testing.T, at []placement) []*vm {
	t.Helper()
	vms := f.runLaunchers(t, at, want{annotations: map[string]string{api.WatchdogKey: "20s"}})
	each(t, vms, func(ctx context.Context, v *vm) error { return f.tell(ctx, v, beats) })
	for _, v := range vms {
		f.awaitHeartbeat(t, v)
	}
	each(t, vms, func(ctx context.Context, v *vm) error { return f.start(ctx, v, asChild) })
	for _, v := range vms {
		f.awaitVM(t, v, agentapi.VMRunning)
	}
	return vms
}

// awaitHeartbeat waits until the agent has seen one.
func (f fixture) awaitHeartbeat(t *testing.T, v *vm) {
	t.Helper()
	var last *agentapi.Heartbeat
	eventually(t, "a heartbeat", func() bool {
		last = f.inspect(t, v.pod).Heartbeat
		return last != nil && last.Age != nil && !last.Expired
	}, func() string { return fmt.Sprintf("%+v", last) })
}

// silence ends the heartbeats, and has the owners hang.
func (f fixture) silence(t *testing.T, vms ...*vm) {
	t.Helper()
	each(t, vms, func(ctx context.Context, v *vm) error {
		if err := f.tell(ctx, v, `kill "$beat"; wait "$beat"; : >/tmp/silent`); err != nil {
			return err
		}
		if err := f.awaitFile(ctx, v, "/tmp/silent"); err != nil {
			return err
		}
		return f.signal(ctx, "STOP", v.owner)
	})
}

func (f fixture) endsAsHung(t *testing.T, v *vm) {
	t.Helper()
	f.awaitEvent(t, v.pod, agentapi.ReasonLauncherHung)
	f.awaitEnd(t, v.process)
	if !f.lives(t, v.owner) {
		t.Error("the owner was ended")
	}
}

// cli runs the command line tool on the node.
func (f fixture) cli(t *testing.T, args ...string) string {
	t.Helper()
	out, err := f.agent.CLI(t.Context(), args...)
	if err != nil {
		t.Fatalf("mooring %v: %v: %s", args, err, out)
	}
	return out
}
