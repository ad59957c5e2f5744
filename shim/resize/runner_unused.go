package resize

import (
	"fmt"

	"github.com/mooring-vm/mooring/shim/resize/target"
)

// doubted returns the step of a run that failed before, if that was to have the guest use
// as many vCPUs as are wanted. A VM that has them then may be one of which they could
// not be taken back.
func (u *run) failedVCPUStep(t target.Target) (step SetVCPUs, ok bool) {
	b := u.previous
	if b.Domain != u.record.Domain || b.Report == nil || b.Report.Error == "" {
		return SetVCPUs{}, false
	}
	for _, s := range b.Steps {
		if s, is := s.(SetVCPUs); is && s.To == t.VCPUs {
			return s, true
		}
	}
	return SetVCPUs{}, false
}

// doubt returns an error if what was wanted in the run before, and is yet, still is not so,
// although there is nothing left to order. What is wanted anew begins with what there is.
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
