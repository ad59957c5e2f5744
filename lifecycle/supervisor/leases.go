package supervisor

import (
	"context"
	"fmt"
	"time"

	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// Lease sets a lease for the launchers of a pod. It holds back each stop of their VMs. A period of
// 0 ends the lease, and also the pod's own. Lease waits until the lease holds and returns the
// number of launchers. The error is that of ctx.
func (s *Supervisor) Lease(
	ctx context.Context, namespace, pod string, period time.Duration, reason string,
) (launchers int, err error) {
	named := func(t *managedTie) bool {
		return t.Launcher.Pod.Namespace == namespace && t.Launcher.Pod.Name == pod
	}
	launchers, err = s.setLeases(ctx, named, tie.LeaseSet{Period: period, Reason: reason})
	if err != nil {
		return 0, fmt.Errorf("lease for pod %s/%s: %w", namespace, pod, err)
	}
	return launchers, nil
}

// LeasePod sets the pod's own lease. It does not change a lease set by Lease, and the later end
// counts. It skips launchers that have ended, except with a period of 0.
func (s *Supervisor) LeasePod(
	ctx context.Context, uid string, period time.Duration, reason string,
) (launchers int, err error) {
	own := func(t *managedTie) bool {
		return t.Launcher.Pod.UID == uid && (period <= 0 || t.LauncherGone == "")
	}
	launchers, err = s.setLeases(ctx, own, tie.LeaseSet{Period: period, Reason: reason,
		ByPod: true})
	if err != nil {
		return 0, fmt.Errorf("lease for the pod with UID %s: %w", uid, err)
	}
	return launchers, nil
}

// setLeases sets a lease for the matching launchers, and waits for that.
func (s *Supervisor) setLeases(
	ctx context.Context, matches func(*managedTie) bool, in tie.LeaseSet,
) (launchers int, err error) {
	found := make(chan int, 1)
	s.enqueue(func(context.Context) {
		if ctx.Err() != nil && in.Period > 0 {
			return // the caller already has an error
		}
		n := 0
		for _, t := range s.ties {
			if matches(t) {
				s.step(t, in)
				n++
			}
		}
		found <- n
	})
	select {
	case n := <-found:
		return n, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}
