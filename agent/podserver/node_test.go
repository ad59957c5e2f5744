package podserver_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/shim/agent"
	"github.com/mooring-vm/mooring/shim/resize"
)

// The client keeps the promises of resize.Node over the socket and the server.
func TestNode(t *testing.T) {
	for name, test := range map[string]func(t *testing.T, r *rig, n *agent.Client){
		"observed":                         testObserved,
		"raise":                            testRaise,
		"raised already":                   testRaised,
		"raise beyond the ceiling":         testBeyondCeiling,
		"raise beyond the node":            testBeyondNode,
		"raise while no VM runs":           testNoVM,
		"raise while two VM processes run": testTwoVMs,
		"raise, and the kernel fails":      testRaiseFails,
		"lower":                            testLower,
		"lower below what is locked":       testLocked,
		"lower below what was given":       testGiven,
		"what is lower is left":            testLowAlready,
		"memory requirement":               testMemoryRequirement,
		"hold":                             testHold,
		"lease":                            testLease,
		"hold while a lease begins":        testHoldWhileALeaseBegins,
		"lease while a hold lasts":         testLeaseHeld,
		"lease while no launcher runs":     testLeaseNoLauncher,
		"lease that cannot be set":         testLeaseFails,
		"migrating":                        testMigrating,
		"changed":                          testChanged,
		"a VM that starts anew":            testNewVM,
		"the agent does not know the pod":  testStarting,
		"desired":                          testDesired,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			test(t, r, agent.New(r.serve(t, "a")))
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantCode checks the code of a refusal.
func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	refused, ok := errors.AsType[*agent.RefusedError](err)
	if !ok || refused.Code != code {
		t.Errorf("error %v, want one with code %s", err, code)
	}
}

func (r *rig) granted() uint64 { return uint64(r.registry.Account().Granted) }

// The node has 8Gi of 16Gi left in kubepods.slice: 2Gi of the used 10Gi are cache.
func testObserved(t *testing.T, r *rig, n *agent.Client) {
	r.kernel.SetLocked(101, gi)
	want := resize.Limits{PodMax: resize.NoLimit, ContainerMax: 4 * gi, Lock: 2 * gi, Locked: gi,
		Floor: 2 * gi, Available: 8 * gi, Start: "101@2"}
	got, err := n.Limits(t.Context())
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got)\n%s", err, diff)
	}
	r.kernel.SetMemAvailable(3 * gi)
	if got, err := n.Limits(t.Context()); got.Available != 3*gi || err != nil {
		t.Errorf("available %d, %v, want the node's memory", got.Available, err)
	}
	all, err := n.Observed(t.Context())
	if all.Floor != podapi.Amount(2*gi) || all.Ceiling != podapi.Amount(8*gi) || all.VM != 101 ||
		err != nil {
		t.Errorf("%+v, %v", all, err)
	}
}

func testRaise(t *testing.T, r *rig, n *agent.Client) {
	must(t, n.RaiseLock(t.Context(), 5*gi))
	if got := r.lock(t, "a"); got != 5*gi || r.granted() != 7*gi {
		t.Errorf("lock %d, account %d, want 5Gi and 7Gi", got, r.granted())
	}
	if other := r.lock(t, "b"); other != 2*gi {
		t.Errorf("the other pod's VM may lock %d", other)
	}
}

func testRaised(t *testing.T, r *rig, n *agent.Client) {
	must(t, n.RaiseLock(t.Context(), 5*gi))
	must(t, n.RaiseLock(t.Context(), 3*gi))
	if got := r.lock(t, "a"); got != 5*gi || r.set() != 1 || r.granted() != 7*gi {
		t.Errorf("lock %d, set %d times, account %d", got, r.set(), r.granted())
	}
}

func testBeyondCeiling(t *testing.T, r *rig, n *agent.Client) {
	for _, bytes := range []uint64{8*gi + 1, resize.NoLimit, resize.NoLimit - 1} {
		wantCode(t, n.RaiseLock(t.Context(), bytes), podapi.CodeRefused)
	}
	if got := r.lock(t, "a"); got != 2*gi || r.set() != 0 || r.granted() != 4*gi {
		t.Errorf("lock %d, set %d times, account %d, want nothing done", got, r.set(), r.granted())
	}
	must(t, n.RaiseLock(t.Context(), 8*gi))
}

// nodeMax is 12Gi for both pods.
func testBeyondNode(t *testing.T, r *rig, n *agent.Client) {
	other := agent.New(r.serve(t, "b"))
	must(t, other.RaiseLock(t.Context(), 6*gi))
	wantCode(t, n.RaiseLock(t.Context(), 6*gi+1), podapi.CodeRefused)
	must(t, n.RaiseLock(t.Context(), 6*gi))
	must(t, other.LowerLock(t.Context(), 4*gi))
	must(t, n.RaiseLock(t.Context(), 8*gi))
	if r.granted() != 12*gi {
		t.Errorf("account %d, want 12Gi", r.granted())
	}
}

func testNoVM(t *testing.T, r *rig, n *agent.Client) {
	r.kernel.Exit(101)
	// the registry still has the ended VM process
	wantCode(t, n.RaiseLock(t.Context(), 5*gi), podapi.CodeNoVM)
	r.showVMs("a")
	wantCode(t, n.RaiseLock(t.Context(), 5*gi), podapi.CodeNoVM)
	wantCode(t, n.LowerLock(t.Context(), 5*gi), podapi.CodeNoVM)
	wantCode(t, n.RequireMemory(t.Context(), 5*gi), podapi.CodeNoVM)
	must(t, n.RequireMemory(t.Context(), 0))
	if r.granted() != 4*gi {
		t.Errorf("account %d, want 4Gi", r.granted())
	}
}

func testTwoVMs(t *testing.T, r *rig, n *agent.Client) {
	r.showVMs("a", r.vms["a"], r.kernel.Start(102, cgroupOf("a"), equalLimits(2*gi)))
	wantCode(t, n.RaiseLock(t.Context(), 5*gi), podapi.CodeNoVM)
	if r.set() != 0 {
		t.Error("a memory lock was set")
	}
}

func testRaiseFails(t *testing.T, r *rig, n *agent.Client) {
	r.kernel.BeforeSet = func(host.Process) error { return errors.New("not permitted") }
	wantCode(t, n.RaiseLock(t.Context(), 5*gi), podapi.CodeFailed)
	if r.granted() != 4*gi {
		t.Errorf("account %d, want the limit in the kernel", r.granted())
	}
}

func testLower(t *testing.T, r *rig, n *agent.Client) {
	must(t, n.RaiseLock(t.Context(), 8*gi))
	r.kernel.SetLocked(101, 3*gi)
	must(t, n.LowerLock(t.Context(), 3*gi))
	if got := r.lock(t, "a"); got != 3*gi || r.granted() != 5*gi {
		t.Errorf("lock %d, account %d, want 3Gi and 5Gi", got, r.granted())
	}
}

func testLocked(t *testing.T, r *rig, n *agent.Client) {
	must(t, n.RaiseLock(t.Context(), 8*gi))
	r.kernel.SetLocked(101, 3*gi+1)
	wantCode(t, n.LowerLock(t.Context(), 3*gi), podapi.CodeLocked)
	// It locks more during the change of its limit.
	r.kernel.SetLocked(101, gi)
	r.kernel.BeforeSet = func(host.Process) error {
		r.kernel.SetLocked(101, 4*gi)
		return nil
	}
	wantCode(t, n.LowerLock(t.Context(), 3*gi), podapi.CodeLocked)
	if got := r.lock(t, "a"); got != 8*gi || r.granted() != 10*gi {
		t.Errorf("lock %d, account %d, want both unchanged", got, r.granted())
	}
}

func testGiven(t *testing.T, r *rig, n *agent.Client) {
	wantCode(t, n.LowerLock(t.Context(), 2*gi-1), podapi.CodeRefused)
	if got := r.lock(t, "a"); got != 2*gi || r.set() != 0 {
		t.Errorf("lock %d, set %d times, want no change", got, r.set())
	}
}

func testLowAlready(t *testing.T, r *rig, n *agent.Client) {
	must(t, n.LowerLock(t.Context(), 5*gi))
	if got := r.lock(t, "a"); got != 2*gi || r.set() != 0 || r.granted() != 4*gi {
		t.Errorf("lock %d, set %d times, account %d, want no change", got, r.set(), r.granted())
	}
}

func testMemoryRequirement(t *testing.T, r *rig, n *agent.Client) {
	must(t, n.RequireMemory(t.Context(), 3*gi))
	needs := func(uid string) uint64 {
		l, _ := r.registry.Find("ID-" + uid)
		return l.MemoryRequirement()
	}
	if needs("a") != 3*gi || needs("b") != 0 {
		t.Errorf("requirements %d and %d, want 3Gi of one", needs("a"), needs("b"))
	}
	must(t, n.RequireMemory(t.Context(), 0))
	if needs("a") != 0 {
		t.Error("the requirement of 0 has no effect")
	}
	must(t, n.RequireMemory(t.Context(), 3*gi))
	r.showVMs("a")
	if needs("a") != 0 {
		t.Error("the requirement outlives the VM")
	}
}

func testHold(t *testing.T, r *rig, n *agent.Client) {
	granted := &leases{rig: r}
	held := r.LeasesUnlessHeld(granted)
	lease := func(pod string, d time.Duration) error {
		_, err := held.Lease(t.Context(), "vms", pod, d, "migration")
		return err
	}
	must(t, n.Hold(t.Context(), time.Minute, 0))
	if err := lease("pod-a", time.Minute); err == nil || granted.set != 0 {
		t.Errorf("a lease started during a resize: %v", err)
	}
	must(t, lease("pod-b", time.Minute))
	must(t, lease("pod-a", 0))
	must(t, n.Hold(t.Context(), 0, 0))
	must(t, lease("pod-a", time.Minute))
	if granted.set != 3 {
		t.Errorf("%d leases, want 3", granted.set)
	}
}

func testMigrating(t *testing.T, r *rig, n *agent.Client) {
	set := func(until time.Time) {
		r.registry.Update("ID-a", func(l *registry.Launcher) { l.Lease = newLease(until) })
	}
	set(time.Now().Add(time.Hour))
	err := n.Hold(t.Context(), time.Second, 0)
	wantCode(t, err, podapi.CodeMigrating)
	if !errors.Is(err, resize.ErrMigrating) || errors.Is(err, resize.ErrAgent) {
		t.Errorf("error %v, want ErrMigrating", err)
	}
	set(time.Now().Add(-time.Second))
	must(t, n.Hold(t.Context(), time.Second, 0))
}

func testChanged(t *testing.T, r *rig, n *agent.Client) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	changed, err := n.Changed(ctx)
	must(t, err)
	await(t, changed)
	first, err := n.Desired(ctx)
	must(t, err)
	r.kernel.Write(cgroupOf("a"), "memory.max", "5368709120\n")
	await(t, changed)
	r.registry.Update("ID-a", func(l *registry.Launcher) { l.Limits.CPU = 4000 })
	await(t, changed)
	if next, err := n.Desired(ctx); next.Generation <= first.Generation || err != nil {
		t.Errorf("generation %d after %d, %v", next.Generation, first.Generation, err)
	}
	cancel()
	for range changed { // until the client closes it
	}
}

func await[T any](t *testing.T, c <-chan T) (value T) {
	t.Helper()
	select {
	case value = <-c:
	case <-time.After(deadline):
		t.Fatal("timed out")
	}
	return value
}

func testNewVM(t *testing.T, r *rig, n *agent.Client) {
	must(t, n.RaiseLock(t.Context(), 5*gi))
	must(t, n.RequireMemory(t.Context(), 3*gi))
	r.startVM("a", 103)
	if l, _ := r.registry.Find("ID-a"); l.Live != nil || r.granted() != 4*gi {
		t.Errorf("%+v, account %d: values of the earlier VM are left", l.Live, r.granted())
	}
	must(t, n.RaiseLock(t.Context(), 4*gi))
	if got := r.lock(t, "a"); got != 4*gi {
		t.Errorf("lock %d, want 4Gi", got)
	}
}

func testStarting(t *testing.T, r *rig, n *agent.Client) {
	r.registry.StopSandbox("")
	_, err := n.Limits(t.Context())
	wantCode(t, err, podapi.CodeNoVM)
	r.ready = false
	if _, err := n.Limits(t.Context()); !errors.Is(err, resize.ErrAgent) {
		t.Errorf("error %v, want ErrAgent", err)
	}
}

func testDesired(t *testing.T, r *rig, n *agent.Client) {
	first, err := n.Desired(t.Context())
	must(t, err)
	want := podapi.Desired{Generation: first.Generation, Launcher: "compute",
		Limits: podapi.Limits{CPU: 2000}}
	if diff := cmp.Diff(want, first); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	r.registry.Update("ID-a", func(l *registry.Launcher) {
		l.Size = api.Size{VCPUs: 4, CPUQuota: api.CPUQuota{Percent: 150}, CPUShares: 200}
	})
	next, err := n.Desired(t.Context())
	must(t, err)
	if want := (api.Size{VCPUs: 4, CPUQuota: api.CPUQuota{Percent: 150},
		CPUShares: 200}); next.Size != want || next.Generation <= first.Generation {
		t.Errorf("%+v, want %+v and a higher generation than %d", next, want, first.Generation)
	}
	r.registry.Update("ID-a", func(l *registry.Launcher) {
		l.Size, l.SizeError = api.Size{}, "two\nlines"
	})
	if bad, err := n.Desired(t.Context()); bad.Error != "two; lines" || bad.Size != (api.Size{}) ||
		err != nil {
		t.Errorf("%+v, %v, want a printable error", bad, err)
	}
}

// The client reconnects to an agent that was away.
func TestNodeAway(t *testing.T) {
	r := newRig(t)
	socket := filepath.Join(t.TempDir(), "s")
	n := agent.New(socket)
	if err := n.RaiseLock(t.Context(), gi); !errors.Is(err, resize.ErrAgent) {
		t.Errorf("error %v, want ErrAgent", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	changed, err := n.Changed(ctx)
	must(t, err)
	stop := r.serveAt(t, "a", socket)
	await(t, changed)
	must(t, n.RequireMemory(ctx, 3*gi))
	stop()
	r.registry.Update("ID-a", func(l *registry.Launcher) { l.Live = nil }) // as in a new agent
	r.serveAt(t, "a", socket)
	await(t, changed)
	if l, _ := r.registry.Find("ID-a"); l.MemoryRequirement() != 3*gi {
		t.Errorf("requirement %d, want the earlier one", l.MemoryRequirement())
	}
	cancel()
	if err := n.RequireMemory(ctx, 0); !errors.Is(err, context.Canceled) ||
		errors.Is(err, resize.ErrAgent) {
		t.Errorf("error %v, want the context's", err)
	}
}
