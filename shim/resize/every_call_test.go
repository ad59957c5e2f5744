package resize_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/mooring-vm/mooring/shim/resize"
)

// The shim dies before and after each call of a resize, and restarts with its journal: the VM
// reaches the target. The same applies to executed calls whose answer is an error or lost.
func TestEveryCallFails(t *testing.T) {
	for name, build := range map[string]func() (*model, uint64, int){
		"grow by virtio-mem": func() (*model, uint64, int) {
			return vm(t).virtioMem(2*gi, 0).passthrough(), 2 * gi, 4
		},
		"grow by DIMM": func() (*model, uint64, int) {
			return vm(t).passthrough(), 2 * gi, 4
		},
		"shrink by DIMM": func() (*model, uint64, int) {
			return vm(t).dimm(256 * mi).dimm(512 * mi).passthrough(), gi, 1
		},
		"mixed": func() (*model, uint64, int) {
			return vm(t).virtioMem(2*gi, gi), gi + 128*mi, 6
		},
	} {
		for _, f := range []fault{refuseAfter, loseAfter, killBefore, killAfter} {
			t.Run(fmt.Sprintf("%s/%s", name, f), func(t *testing.T) {
				for at, hit := 0, true; hit; at++ {
					synctest.Test(t, func(t *testing.T) { hit = failAt(t, build, f, at) })
				}
			})
		}
	}
}

// failAt makes one call fail, and reports whether the resize has so many calls.
func failAt(t *testing.T, build func() (*model, uint64, int), f fault, at int) (hit bool) {
	m, bytes, vcpus := build()
	m.fail = func(format string, args ...any) {
		t.Helper()
		t.Fatalf("call %d: "+format, append([]any{at}, args...)...)
	}
	w := &world{
		t:       t,
		m:       m.withLimits(),
		policy:  resize.Policy{Shrink: true},
		journal: &memoryJournal{calls: &m.calls},
	}
	w.desired = m.target(bytes, vcpus)
	w.desired.CPUShares = 2 * defaultShares
	m.node.desiredLimit = w.desired.Limit
	m.calls.faults = map[int]fault{at: f}
	report, dead, err := w.runShim()
	if !dead {
		w.expectTruthful(report, err)
	}
	hit = m.calls.n > at
	w.removeFaults()
	w.expectReached()
	return hit
}
