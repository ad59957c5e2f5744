package resize_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/mooring-vm/mooring/shim/resize"
	"github.com/mooring-vm/mooring/shim/resize/target"
)

// A short outage of agent or libvirt causes no rollback, whichever call is lost.
func TestShortOutage(t *testing.T) {
	for name, build := range map[string]func() (*model, uint64, int){
		"grow": func() (*model, uint64, int) {
			return vm(t).virtioMem(2*gi, 0).passthrough(), 2 * gi, 4
		},
		"shrink": func() (*model, uint64, int) {
			return vm(t).virtioMem(2*gi, gi).passthrough(), gi, 1
		},
	} {
		for _, f := range []fault{loseBefore, loseAfter} {
			t.Run(fmt.Sprintf("%s/%s", name, f), func(t *testing.T) {
				for at, hit := 0, true; hit; at++ {
					synctest.Test(t, func(t *testing.T) {
						m, bytes, vcpus := build()
						r := newRig(m)
						m.calls.faults = map[int]fault{at: f}
						r.desired = m.target(bytes, vcpus)
						m.node.desiredLimit = r.desired.Limit
						report, err := r.Run(
							context.Background(), func() target.Target { return r.desired },
						)
						hit = m.calls.n > at
						// A lost write of the journal is final: the runner does not retry it.
						if err != nil && !errors.Is(err, errFault) {
							t.Errorf("call %d: %v\n%s", at, err, stepLog(report))
						}
					})
				}
			})
		}
	}
}

// A long outage suspends the run. A recovery then reaches the target, and no step was rolled back.
func TestLongOutage(t *testing.T) {
	for at, hit := 0, true; hit; at++ {
		synctest.Test(t, func(t *testing.T) {
			m := vm(t).virtioMem(2*gi, 0).passthrough()
			r := newRig(m)
			m.calls.faults = map[int]fault{at: outage}
			report, err := r.run(t, m.target(2*gi, 4))
			hit = m.calls.n > at
			if err == nil || errors.Is(err, errFault) {
				return
			}
			for _, s := range report.Steps {
				if s.Rollback {
					t.Errorf("call %d: rollback after %v\n%s", at, err, stepLog(report))
				}
			}
			record, lost := r.journal.Load()
			if lost == nil && record.Phase != resize.Running && !report.TargetReached {
				t.Errorf("call %d: the journal says %s after %v", at, record.Phase, err)
			}
			report, ok, err := r.Recover(
				context.Background(), func() target.Target { return r.desired },
			)
			if err != nil || ok && report.Actual.Memory != 2*gi {
				t.Errorf("call %d: afterwards %v, %+v", at, err, report.Actual)
			}
		})
	}
}

// Another program lowers memory.max to the VM's usage shortly after a lost or refused call. The
// repeated call and the rollback still fit into the limit: the model fails the test if the VM exceeds
// memory.max.
func TestLimitFallsAfterFault(t *testing.T) {
	for name, to := range map[string]func(*model) target.Target{
		"vCPUs":   func(m *model) target.Target { return m.target(gi, 4) },
		"balloon": func(m *model) target.Target { return m.target(gi-256*mi, 2) },
	} {
		for _, first := range []fault{loseBefore, refuseAfter, refuseBefore} {
			for at := range 40 {
				for later := range 9 {
					synctest.Test(t, func(t *testing.T) {
						r := newRig(vm(t))
						r.m.guest.lag = 3
						r.m.calls.lowerLimit = func() { r.m.node.lowerLimit = true }
						r.m.calls.faults = map[int]fault{at: first, at + 1 + later: lowerLimit}
						w := to(r.m)
						r.m.node.desiredLimit = w.Limit
						_, _ = r.Run(t.Context(), func() target.Target { return w })
						if t.Failed() {
							t.Fatalf(
								"%s: %s at call %d, limit lowered %d calls later", name, first, at,
								1+later,
							)
						}
					})
				}
			}
		}
	}
}
