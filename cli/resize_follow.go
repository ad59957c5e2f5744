package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
)

// reportEvery is the polling period for reports from the agent.
const reportEvery = 250 * time.Millisecond

// errNoReport means that the pod sent no report.
var errNoReport = errors.New("no report from the pod: it needs Mooring's sidecar, or another " +
	"client of the pod's socket that resizes its VM")

// followRequest follows a request sent to the agent, if the flags say so.
func (p *Program) followRequest(
	ctx context.Context, pod agentapi.PodRef, asked agentapi.ResizedPod, flags resizeFlags,
) error {
	switch {
	case flags.dryRun:
		return p.awaitPlan(ctx, pod, asked, flags)
	case flags.wait:
		return p.follow(ctx, pod, asked, flags)
	}
	return nil
}

// follow shows the pod's reports about a resize until its end.
func (p *Program) follow(
	ctx context.Context, pod agentapi.PodRef, asked agentapi.ResizedPod, flags resizeFlags,
) error {
	shown := newProgress(p.Out)
	return p.poll(ctx, pod, asked, flags, func(l agentapi.Launcher) (over bool, err error) {
		if l.Resize == nil || l.Resize.Report.Generation < asked.Generation {
			return false, nil
		}
		return shown.show(l.Resize.Report)
	}, shown.timeoutError, shown.current)
}

// awaitPlan shows the answer to this dry run. It ignores answers to later ones.
func (p *Program) awaitPlan(
	ctx context.Context, pod agentapi.PodRef, asked agentapi.ResizedPod, flags resizeFlags,
) error {
	shown := newProgress(p.Out)
	return p.poll(ctx, pod, asked, flags, func(l agentapi.Launcher) (over bool, err error) {
		switch {
		case l.DryRun == nil || l.DryRun.Report.Generation < asked.Generation:
			return false, nil
		case l.DryRun.Report.Generation > asked.Generation:
			return true, errors.New("a later dry run replaced this one: try again")
		}
		return true, p.showPlan(l.DryRun.Report)
	}, func() error { return errNoReport }, shown.current)
}

// poll shows the agent's record of the pod repeatedly until it is final. late returns the error
// after the timeout, and text the progress.
func (p *Program) poll(ctx context.Context, pod agentapi.PodRef, asked agentapi.ResizedPod,
	flags resizeFlags,
	show func(agentapi.Launcher) (over bool, err error), late func() error, text func() string,
) error {
	defer p.progress(text)()
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
