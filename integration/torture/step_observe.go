package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"
)

// policyFile is the agent's policy on the node.
const policyFile = "/etc/mooring/policy.yaml"

// observePeriod is the time in mode observe, without the restarts of the agent.
const observePeriod = 3 * time.Second

// observeMode restarts the agent in mode observe, and later in mode enforce. Meanwhile orphans live
// on, as in an absence of the agent.
func observeMode(ctx context.Context, w *world) (string, error) {
	if w.bare || !w.observing.CompareAndSwap(false, true) {
		return "", errSkip
	}
	w.background.Go(func() {
		defer w.observing.Store(false)
		err := restartWith(ctx, strings.Replace(policy, "mode: enforce", "mode: observe", 1))
		pause(ctx, observePeriod)
		if err = errors.Join(err, restartWith(context.WithoutCancel(ctx), policy)); err != nil {
			w.logf("mode observe: %v", err)
		}
	})
	return agentUnit, nil
}

// restartWith returns after the agent is ready with this policy.
func restartWith(ctx context.Context, policy string) error {
	if err := os.WriteFile(policyFile+".new", []byte(policy), 0o600); err != nil {
		return err
	}
	if err := os.Rename(policyFile+".new", policyFile); err != nil {
		return err
	}
	return systemctl(ctx, "restart", agentUnit)
}

// enforces reports whether an agent runs that ends orphans.
func (w *world) enforces() bool { return w.agentUp.Load() && !w.observing.Load() }
