package resize

import (
	"context"
	"fmt"
	"time"
)

// measurable is a step whose progress can be observed. remaining falls to 0.
type measurable interface{ remaining(Observed) uint64 }

// progress ends the context of a step after the step's timeout without progress. So a large guest
// has the time that it needs.
type progress struct {
	step   Step
	timer  *time.Timer
	cancel context.CancelFunc
	least  uint64 // smallest remaining part so far
	seen   bool   // least is set
	moved  bool   // the remaining part has become smaller
}

// watchProgress returns the context of a step. The caller must call stop.
func watchProgress(ctx context.Context, step Step) (context.Context, *progress) {
	ctx, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(step.Timeout(), cancel)
	return ctx, &progress{step: step, timer: timer, cancel: cancel}
}

func (p *progress) stop() {
	p.timer.Stop()
	p.cancel()
}

// observe gives the step its full time again after progress, and reports progress.
func (p *progress) observe(o Observed) bool {
	m, ok := p.step.(measurable)
	if !ok {
		return false
	}
	left := m.remaining(o)
	moved := p.seen && left < p.least && p.timer.Stop()
	if moved {
		p.moved = true
		p.timer.Reset(p.step.Timeout())
	}
	if !p.seen || left < p.least {
		p.least, p.seen = left, true
	}
	return moved
}

// timeoutText describes the end of the time.
func (p *progress) timeoutText() string {
	if p.moved {
		return fmt.Sprintf("no progress within %s", p.step.Timeout())
	}
	return fmt.Sprintf("not confirmed within %s", p.step.Timeout())
}

// distance returns the difference of two numbers.
func distance[N int | uint64](a, b N) uint64 { return uint64(max(a, b) - min(a, b)) }
