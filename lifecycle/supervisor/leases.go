package supervisor

import (
	"context"
	"fmt"
	"time"

	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// Lease holds back what would be done to the VM processes of a pod's launchers without
// the pod asking, for that long; 0 ends the lease there is, and the pod's own. It
// returns how many launchers it concerns, once it holds.
func (s *Supervisor) Lease(ctx context.Context, namespace, pod string, period time.Duration, reason string) (launchers int, err error) {
	named := func(t *managedTie) bool { return t.Launcher.Pod.Namespace == namespace && t.Launcher.Pod.Name == pod }
	launchers, err = s.setLeases(ctx, named, tie.LeaseSet{Period: period, Reason: reason})
	if err != nil {
		return 0, fmt.Errorf("lease for pod %s/%s: %w", namespace, pod, err)
	}
	return launchers, nil
}

// LeasePod is [Supervisor.Lease] for a pod that asks by itself. It leaves what was set
// by Lease alone: the one of both that ends last counts. It is for launchers that live:
// what was asked for one that has ended meanwhile is made no longer.
func (s *Supervisor) LeasePod(ctx context.Context, uid string, period time.Duration, reason string) (launchers int, err error) {
	own := func(t *managedTie) bool { return t.Launcher.Pod.UID == uid && (period <= 0 || t.LauncherGone == "") }
	launchers, err = s.setLeases(ctx, own, tie.LeaseSet{Period: period, Reason: reason, ByPod: true})
	if err != nil {
		return 0, fmt.Errorf("lease for the pod with UID %s: %w", uid, err)
	}
	return launchers, nil
}

// setLeases steps the ties of those launchers, and waits for it. The error is that of ctx.
func (s *Supervisor) setLeases(ctx context.Context, concerns func(*managedTie) bool, in tie.LeaseSet) (launchers int, err error) {
	found := make(chan int, 1)
	s.enqueue(func(context.Context) {
		if ctx.Err() != nil && in.Period > 0 {
			return // who asked was told that there is none
		}
		n := 0
		for _, t := range s.ties {
			if concerns(t) {
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
