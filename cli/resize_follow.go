package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
)

// reportEvery is how often the agent is asked what the pod has told.
const reportEvery = 250 * time.Millisecond

// errSilent says that nobody reports.
var errSilent = errors.New("the pod has told nothing of it: it needs Mooring's sidecar, or a client of the pod's socket, that looks after its VM")

// followAsked shows what the pod tells of what was asked of the agent, where that is
// wanted.
func (p *Program) followAsked(ctx context.Context, pod agentapi.PodRef, asked agentapi.ResizedPod, flags resizeFlags) error {
	switch {
	case flags.dryRun:
		return p.awaitPlan(ctx, pod, asked, flags)
	case flags.wait:
		return p.follow(ctx, pod, asked, flags)
	}
	return nil
}

// follow shows what the pod tells of a resize, until it is done.
func (p *Program) follow(ctx context.Context, pod agentapi.PodRef, asked agentapi.ResizedPod, flags resizeFlags) error {
	shown := newProgress(p.Out)
	return p.poll(ctx, pod, asked, flags, func(l agentapi.Launcher) (over bool, err error) {
		if l.Resize == nil || l.Resize.Report.Generation < asked.Generation {
			return false, nil
		}
		return shown.show(l.Resize.Report)
	}, shown.late)
}

// awaitPlan shows the answer to a dry run. That to a later one, which somebody else has
// asked for, is none.
func (p *Program) awaitPlan(ctx context.Context, pod agentapi.PodRef, asked agentapi.ResizedPod, flags resizeFlags) error {
	return p.poll(ctx, pod, asked, flags, func(l agentapi.Launcher) (over bool, err error) {
		switch {
		case l.DryRun == nil || l.DryRun.Report.Generation < asked.Generation:
			return false, nil
		case l.DryRun.Report.Generation > asked.Generation:
			return true, errors.New("another dry run was asked for meanwhile, and took the place of this one: try again")
		}
		return true, p.showPlan(l.DryRun.Report)
	}, func() error { return errSilent })
}

// poll shows what the agent has of the pod, again and again, until that is over. late is
// why it was not in time.
func (p *Program) poll(ctx context.Context, pod agentapi.PodRef, asked agentapi.ResizedPod, flags resizeFlags,
	show func(agentapi.Launcher) (over bool, err error), late func() error,
) error {
	bounded, cancel := context.WithTimeout(ctx, flags.timeout)
	defer cancel()
	ticker := time.NewTicker(reportEvery)
	defer ticker.Stop()
	for {
		launchers, err := p.client().LaunchersOfPod(bounded, pod.Namespace, pod.Name)
		if err != nil && bounded.Err() == nil {
			return err
		}
		for _, l := range launchers {
			if l.Pod.UID != asked.UID {
				continue
			}
			if over, err := show(l); over {
				return err
			}
		}
		select {
		case <-ticker.C:
		case <-bounded.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("waited for %s: %w", flags.timeout, late())
		}
	}
}
