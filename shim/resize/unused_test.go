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

// unused is a fake whose guest uses none of the vCPUs that it gets.
func fakeWithUnusedVCPUs(keeps bool) *virttest.Fake {
	fake := smallFake()
	fake.First().SetGuest(virttest.Guest{KeepVCPUsOffline: true, KeepVCPUs: keeps})
	return fake
}

func runnerOf(d virt.Domain) *resize.Runner {
	return &resize.Runner{Domain: d, Node: unlimitedNode{}, Journal: &memoryJournal{calls: &calls{}}, Policy: resize.Policy{Shrink: true}}
}

func twoVCPUs(generation uint64) resize.TargetFunc {
	return func() target.Target { return target.Target{Generation: generation, Size: api.Size{VCPUs: 2}} }
}

const unusedText = "the guest uses 1 of its 2 vCPUs"

// vCPUs that the guest does not use, and that could not be taken back, are no success the
// next time that it is tried, although there is nothing left to order.
func TestUnusedVCPUsStayFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := runnerOf(definedDomain{fakeWithUnusedVCPUs(true).First()})
		if _, err := r.Run(t.Context(), twoVCPUs(1)); err == nil || !strings.Contains(err.Error(), "not all of it could be undone") {
			t.Fatalf("error %v", err)
		}
		for range 2 {
			report, err := r.Run(t.Context(), twoVCPUs(1))
			if err == nil || !strings.HasSuffix(err.Error(), unusedText) || resize.Suspended(err) || len(report.Steps) != 0 || report.Actual.Online != 1 {
				t.Errorf("tried again: %v, %+v", err, report)
			}
		}
		report, err := r.Run(t.Context(), twoVCPUs(2))
		if err != nil || report.Actual.VCPUs != 2 || report.Actual.Online != 1 {
			t.Errorf("wanted anew: %v, %+v, want it told what the guest uses", err, report.Actual)
		}
	})
}

// An order that had to be given again, and is not confirmed in time, is left as it is:
// who takes over gives it all its time, and undoes it then.
func TestLostCallAndUnusedVCPUs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fake := fakeWithUnusedVCPUs(false)
		fake.DisconnectOnCall(virttest.Before)
		time.AfterFunc(time.Second, fake.Reconnect)
		r := runnerOf(definedDomain{fake.First()})
		report, err := r.Run(t.Context(), twoVCPUs(1))
		if !resize.Suspended(err) || !strings.Contains(err.Error(), unusedText) || len(report.Steps) != 1 || report.Actual.VCPUs != 2 {
			t.Fatalf("error %v, %+v, want it left", err, report)
		}
		report, some, err := r.Recover(t.Context(), twoVCPUs(1))
		if !some || err == nil || resize.Suspended(err) || !strings.Contains(err.Error(), unusedText) || report.Actual.VCPUs != 1 {
			t.Errorf("taken over: %v, %v, %+v, want it undone", some, err, report)
		}
	})
}
