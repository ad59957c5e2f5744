package coordinator

import (
	"context"

	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/resize"
)

// isNewDryRun reports whether now requests a dry run that old did not.
func isNewDryRun(old, now *podapi.Desired) bool {
	if now.DryRun == nil {
		return false
	}
	return old == nil || old.DryRun == nil || old.DryRun.Generation != now.DryRun.Generation
}

// answerDryRuns answers dry runs until ctx ends, also during a resize. It plans for the VM's
// current state and changes nothing.
func (r *resizer) answerDryRuns(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.dryRuns:
			// A restarted agent may have lost the request.
			if desired := *r.latest.Load(); desired.DryRun != nil {
				r.send(ctx, r.dryRunReport(ctx, desired))
			}
		}
	}
}

// dryRunReport returns the answer to a dry run.
func (r *resizer) dryRunReport(ctx context.Context, desired podapi.Desired) podapi.Report {
	desired.Generation, desired.Size, desired.Error = desired.DryRun.Generation,
		desired.DryRun.Size, ""
	report := podapi.Report{Generation: desired.Generation, DryRun: true,
		State: podapi.StatePlanned}
	plan, err := r.makePlan(ctx, desired)
	switch {
	case isRefusal(err):
		report.State, report.Error = podapi.StateRefused, line(err.Error())
	case err != nil:
		report.State, report.Error = podapi.StateFailed, line(err.Error())
	}
	report.Plan, report.Notes = lines(plan.Steps.Descriptions()), lines(plan.Notes)
	return report
}

func (r *resizer) makePlan(ctx context.Context, desired podapi.Desired) (resize.Plan, error) {
	newTarget, err := r.target(ctx, desired)
	if err != nil {
		return resize.Plan{}, err
	}
	observed, err := resize.Read(ctx, r.domain, r.Agent)
	if err != nil {
		return resize.Plan{}, err
	}
	return resize.MakePlan(observed, newTarget, r.policy())
}
