package resize_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/shim/resize"
	"github.com/mooring-vm/mooring/shim/resize/target"
	"github.com/mooring-vm/mooring/shim/virt"
	"github.com/mooring-vm/mooring/shim/virt/virttest"
)

// fakeWithUnusedVCPUs has a guest that uses no new vCPU. With keeps it does not release them.
func fakeWithUnusedVCPUs(keeps bool) *virttest.Fake {
	fake := smallFake()
	fake.First().SetGuest(virttest.Guest{KeepVCPUsOffline: true, KeepVCPUs: keeps})
	return fake
}

func runnerOf(d virt.Domain) *resize.Runner {
	return &resize.Runner{
		Domain:  d,
		Node:    unlimitedNode{},
		Journal: &memoryJournal{calls: &calls{}},
		Policy:  resize.Policy{Shrink: true},
	}
}

func twoVCPUs(generation uint64) resize.TargetFunc {
	return func() target.Target {
		return target.Target{Generation: generation, Size: api.Size{VCPUs: 2}}
	}
}

const unusedText = "the guest uses 1 of its 2 vCPUs"

// Unused vCPUs that stay plugged are not a success of the next run, although its plan is empty.
func TestUnusedVCPUsStayFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := runnerOf(definedDomain{fakeWithUnusedVCPUs(true).First()})
		_, err := r.Run(t.Context(), twoVCPUs(1))
		if err == nil || !strings.Contains(err.Error(), "the rollback is incomplete") {
			t.Fatalf("error %v", err)
		}
		for range 2 {
			report, err := r.Run(t.Context(), twoVCPUs(1))
			if err == nil || !strings.HasSuffix(err.Error(), unusedText) || resize.Suspended(err) ||
				len(report.Steps) != 0 ||
				report.Actual.Online != 1 {
				t.Errorf("next run: %v, %+v", err, report)
			}
		}
		report, err := r.Run(t.Context(), twoVCPUs(2))
		if err != nil || report.Actual.VCPUs != 2 || report.Actual.Online != 1 {
			t.Errorf(
				"new generation: %v, %+v, want the online vCPUs in the report", err, report.Actual,
			)
		}
	})
}

// A repeated call without a confirmation suspends the run, because it had less time. The recovery
// waits for the full time and then rolls back.
func TestLostCallAndUnusedVCPUs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := fakeWithUnusedVCPUs(false)
		fake.DisconnectOnCall(virttest.Before)
		time.AfterFunc(time.Second, fake.Reconnect)
		r := runnerOf(definedDomain{fake.First()})
		report, err := r.Run(t.Context(), twoVCPUs(1))
		if !resize.Suspended(err) || !strings.Contains(err.Error(), unusedText) ||
			len(report.Steps) != 1 ||
			report.Actual.VCPUs != 2 {
			t.Fatalf("error %v, %+v, want it suspended", err, report)
		}
		report, some, err := r.Recover(t.Context(), twoVCPUs(1))
		if !some || err == nil || resize.Suspended(err) ||
			!strings.Contains(err.Error(), unusedText) ||
			report.Actual.VCPUs != 1 {
			t.Errorf("recovered: %v, %v, %+v, want a rollback", some, err, report)
		}
	})
}
