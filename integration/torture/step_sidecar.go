package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/mooring-vm/mooring/shim/agent"
)

// maxSidecar bounds the time for which a stop handler is connected.
const maxSidecar = 6 * time.Second

// runSidecar connects a stop handler to a pod's socket. The handler ignores each stop request, and
// then disconnects. It may delay the end of an orphan by the grace period and the wait for its
// return. Both are a part of the checker's bound.
func runSidecar(ctx context.Context, w *world) (string, error) {
	if w.bare {
		return "", errSkip
	}
	l, err := w.randomLauncher(func(l *launcher) bool { return l.pod != nil })
	if l == nil || !w.agentUp.Load() {
		return "", err
	}
	d := time.Duration(w.rand.Int64N(int64(maxSidecar)))
	socket := filepath.Join("/run/mooring/pods", l.pod.UID, "agent.sock")
	w.background.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, d)
		defer cancel()
		for stop := range agent.New(socket).Stops(ctx) {
			if stop.Requested {
				w.logf("the sidecar of %s ignores a stop request", l.name)
			}
		}
	})
	return fmt.Sprintf("launcher %d (%s) for %s", l.number, l.name, d), nil
}
