package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
)

// pinsDir has the tracker's pinned maps.
const pinsDir = "/sys/fs/bpf/mooring"

// schemaPeriod is the time for which an agent finds maps of another schema.
const schemaPeriod = 2 * time.Second

// changeSchema replaces the agent as an upgrade does, and gives the pinned maps the schema of
// another version meanwhile. The agent must refuse such maps and leave them: a guess about their
// content would stop VMs of living launchers. The next agent with the right schema finds orphans of
// the meantime in them.
func changeSchema(ctx context.Context, w *world) (string, error) {
	if w.bare || !w.observing.CompareAndSwap(false, true) {
		return "", errSkip
	}
	w.background.Go(func() {
		defer w.observing.Store(false)
		if err := w.runWithOtherSchema(context.WithoutCancel(ctx)); err != nil {
			w.logf("another map schema: %v", err)
		}
	})
	return agentUnit, nil
}

func (w *world) runWithOtherSchema(ctx context.Context) error {
	if err := systemctl(ctx, "stop", agentUnit); err != nil {
		return err
	}
	right, err := pins()
	if err != nil {
		return errors.Join(err, startAgent(ctx))
	}
	_, generation, _ := strings.Cut(filepath.Base(right), "-")
	other := filepath.Join(pinsDir, "v99-"+generation)
	if err := os.Rename(right, other); err != nil {
		return errors.Join(err, startAgent(ctx))
	}
	err = startAgent(ctx)
	for began := time.Now(); time.Since(began) < schemaPeriod; pause(ctx, tick) {
		var n agentapi.Node
		if w.agentGet(ctx, agentapi.PathNode, &n) == nil {
			w.check.report("the agent runs with maps of an unknown schema")
			break
		}
	}
	err = errors.Join(err, systemctl(ctx, "stop", agentUnit))
	if renameErr := os.Rename(other, right); renameErr != nil {
		w.check.report(fmt.Sprintf("the agent has changed maps of an unknown schema: %v", renameErr))
	}
	return errors.Join(err, startAgent(ctx))
}

// startAgent does not wait until the agent is ready. A failed start may follow many others.
func startAgent(ctx context.Context) error {
	_ = systemctl(ctx, "reset-failed", agentUnit) // fails without a failure
	return systemctl(ctx, "start", "--no-block", agentUnit)
}

// pins returns the directory of the present maps.
func pins() (string, error) {
	all, err := filepath.Glob(filepath.Join(pinsDir, "v*-*"))
	if err == nil && len(all) != 1 {
		err = fmt.Errorf("pinned maps in %q: want one directory", all)
	}
	if err != nil {
		return "", err
	}
	return all[0], nil
}
