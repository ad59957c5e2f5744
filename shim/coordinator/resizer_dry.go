package coordinator

import (
	"context"

	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/resize"
)

// another reports whether a dry run is asked for that was not asked for before.
func isNewDryRun(old, now *podapi.Desired) bool {
	if now.DryRun == nil {
		return false
	}
	return old == nil || old.DryRun == nil || old.DryRun.Generation != now.DryRun.Generation
}

// tryOut answers dry runs until ctx ends, also while the VM is being resized: a plan
// is made for the VM as it is at the time, and nothing is done.
func (r *resizer) answerDryRuns(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.dryRuns:
			if w := *r.latest.Load(); w.DryRun != nil { // an agent that was started anew may have lost it
				r.send(ctx, r.dryRunReport(ctx, w))
			}
		}
	}
}

// planned is the answer to a dry run.
func (r *resizer) dryRunReport(ctx context.Context, w podapi.Desired) podapi.Report {
	w.Generation, w.Size, w.Error = w.DryRun.Generation, w.DryRun.Size, ""
	report := podapi.Report{Generation: w.Generation, DryRun: true, State: podapi.StatePlanned}
	plan, err := r.makePlan(ctx, w)
	switch {
	case isRefusal(err):
		report.State, report.Error = podapi.StateRefused, line(err.Error())
	case err != nil:
		report.State, report.Error = podapi.StateFailed, line(err.Error())
	}
	report.Plan, report.Notes = lines(plan.Steps.Descriptions()), lines(plan.Notes)
	return report
}

func (r *resizer) makePlan(ctx context.Context, w podapi.Desired) (resize.Plan, error) {
	want, err := r.target(ctx, w)
	if err != nil {
		return resize.Plan{}, err
	}
	is, err := resize.Read(ctx, r.domain, r.Agent)
	if err != nil {
		return resize.Plan{}, err
	}
	return resize.MakePlan(is, want, r.Policy)
}
