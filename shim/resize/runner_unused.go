package resize

import (
	"fmt"

	"github.com/mooring-vm/mooring/shim/resize/target"
)

// failedVCPUStep returns the step of a failed previous run that set the desired number of vCPUs.
// Those vCPUs may still be plugged, because their unplug failed.
func (u *run) failedVCPUStep(t target.Target) (step SetVCPUs, ok bool) {
	b := u.previous
	sameVM := b.Domain == u.record.Domain && b.Start == u.record.Start
	if !sameVM || b.Report == nil || b.Report.Error == "" {
		return SetVCPUs{}, false
	}
	for _, s := range b.Steps {
		if s, is := s.(SetVCPUs); is && s.To == t.VCPUs {
			return s, true
		}
	}
	return SetVCPUs{}, false
}

// checkUnusedVCPUs returns an error if the previous run failed for the same target, and the guest
// still does not use the plugged vCPUs. The plan would be empty and look like success. A new
// generation starts without this check.
func (u *run) checkUnusedVCPUs(o Observed, t target.Target) error {
	step, ok := u.failedVCPUStep(t)
	if !ok || t.Generation != u.previous.Target.Generation || o.Domain.VCPUs.Plugged != step.To {
		return nil
	}
	if err := step.verify(o); err != nil {
		return fmt.Errorf("%s: %w", step, err)
	}
	return nil
}
