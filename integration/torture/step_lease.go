package main

import (
	"context"
	"fmt"
	"time"

	"github.com/mooring-vm/mooring/agent/admin"
	"github.com/mooring-vm/mooring/api/agentapi"
)

// leaseSeconds is the longest lease. With it an orphan lives longer by as much.
const leaseSeconds = 6

// setLease sets a lease for a pod. While the lease lasts, its VMs may outlive their launcher.
func setLease(ctx context.Context, w *world) (string, error) {
	if w.bare {
		return "", errSkip
	}
	l, err := w.randomLauncher(func(l *launcher) bool { return l.pod != nil })
	if l == nil || !w.agentUp.Load() {
		return "", err
	}
	request := agentapi.LeaseRequest{Seconds: 1 + w.rand.Int64N(leaseSeconds), Reason: "torture"}
	w.check.allowTime(l.current.process, request.Period())
	client := admin.NewClient(agentapi.DefaultSocket)
	limited, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err = client.Lease(limited, l.pod.Namespace, l.pod.Name, request)
	return fmt.Sprintf("launcher %d (%s) for %s", l.number, l.name, request.Period()), err
}

// allowTime lets the VMs of a launcher outlive it by at least this time more.
func (c *checker) allowTime(launcher *subject, d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	launcher.extraTime = max(launcher.extraTime, d)
}
