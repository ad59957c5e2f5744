package podserver_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/agent/podserver"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/shim/agent"
	"github.com/mooring-vm/mooring/shim/resize"
)

// leases writes leases into the registry as the supervisor does, and counts them.
type leases struct {
	*rig
	set  int
	err  error
	done func() // called before a lease holds; may be nil
}

func (l *leases) Lease(
	_ context.Context, _, pod string, period time.Duration, reason string,
) (int, error) {
	return l.enter(strings.TrimPrefix(pod, "pod-"), period, reason)
}

func (l *leases) LeasePod(
	_ context.Context, uid string, period time.Duration, reason string,
) (int, error) {
	return l.enter(uid, period, reason)
}

func (l *leases) enter(uid string, period time.Duration, reason string) (int, error) {
	if l.err != nil {
		return 0, l.err
	}
	l.set++
	if l.done != nil {
		l.done()
	}
	known := l.registry.Update("ID-"+uid, func(now *registry.Launcher) {
		now.Lease = nil
		if period > 0 {
			now.Lease = &agentapi.Lease{Until: time.Now().Add(period), Reason: reason}
		}
	})
	if !known {
		return 0, nil
	}
	return 1, nil
}

// leased returns the lease of a pod's launcher.
func (r *rig) leased(uid string) *agentapi.Lease {
	l, _ := r.registry.Find("ID-" + uid)
	return l.Lease
}

// A hold and a lease exclude each other from their start.
func testHoldWhileALeaseBegins(t *testing.T, r *rig, n *agent.Client) {
	var held error
	other := r.Pod("a")
	r.LeasesUnlessHeld(&leases{rig: r, done: func() { held = other.Hold(time.Minute, 0) }})
	must(t, n.Lease(t.Context(), time.Minute, "migration"))
	if refusal, ok := errors.AsType[*podserver.Refusal](held); !ok ||
		refusal.Code != podapi.CodeMigrating {
		t.Errorf("error %v of a hold, want one with code %s", held, podapi.CodeMigrating)
	}
}

func testLease(t *testing.T, r *rig, n *agent.Client) {
	r.LeasesUnlessHeld(&leases{rig: r})
	must(t, n.Lease(t.Context(), time.Second, "migration"))
	must(t, r.Pod("a").Lease(t.Context(), time.Hour, "migration")) // renewed, for too long
	got := r.leased("a")
	if got == nil || got.Reason != "migration (in the pod's own words)" ||
		time.Until(got.Until) > podapi.MaxLease {
		t.Fatalf("lease %+v, want one of %s at most, with its reason", got, podapi.MaxLease)
	}
	if other := r.leased("b"); other != nil {
		t.Errorf("the other pod has a lease: %+v", other)
	}
	if err := n.Hold(t.Context(), time.Minute, 0); !errors.Is(err, resize.ErrMigrating) {
		t.Errorf("error %v of a hold, want ErrMigrating", err)
	}
	must(t, n.Lease(t.Context(), 0, ""))
	must(t, n.Lease(t.Context(), 0, "")) // without a lease
	if got := r.leased("a"); got != nil {
		t.Errorf("lease %+v, want none", got)
	}
	must(t, n.Hold(t.Context(), time.Minute, 0))
}

func testLeaseHeld(t *testing.T, r *rig, n *agent.Client) {
	granted := &leases{rig: r}
	r.LeasesUnlessHeld(granted)
	must(t, n.Hold(t.Context(), time.Minute, 0))
	err := n.Lease(t.Context(), time.Minute, "migration")
	wantCode(t, err, podapi.CodeHeld)
	if errors.Is(err, resize.ErrAgent) || errors.Is(err, resize.ErrMigrating) || granted.set != 0 {
		t.Errorf("error %v, %d leases, want it refused", err, granted.set)
	}
	must(t, agent.New(r.serve(t, "b")).Lease(t.Context(), time.Minute, "migration"))
	must(t, n.Hold(t.Context(), 0, 0))
	must(t, n.Lease(t.Context(), time.Minute, "migration"))
}

func testLeaseNoLauncher(t *testing.T, r *rig, n *agent.Client) {
	wantCode(t, n.Lease(t.Context(), time.Minute, "migration"), podapi.CodeNoVM) // without tracker
	granted := &leases{rig: r}
	r.LeasesUnlessHeld(granted)
	r.registry.Update("ID-a", func(l *registry.Launcher) { l.State = agentapi.StateStopped })
	wantCode(t, n.Lease(t.Context(), time.Minute, "migration"), podapi.CodeNoVM)
	if granted.set != 0 {
		t.Errorf("%d leases, want none", granted.set)
	}
	must(t, n.Lease(t.Context(), 0, ""))
	r.ready = false
	if err := n.Lease(t.Context(), time.Minute, "migration"); !errors.Is(err, resize.ErrAgent) {
		t.Errorf("error %v, want ErrAgent", err)
	}
}

func testLeaseFails(t *testing.T, r *rig, n *agent.Client) {
	r.LeasesUnlessHeld(&leases{rig: r, err: context.DeadlineExceeded})
	wantCode(t, n.Lease(t.Context(), time.Minute, "migration"), podapi.CodeFailed)
	must(t, n.Hold(t.Context(), time.Minute, 0)) // the failed lease is over
}
