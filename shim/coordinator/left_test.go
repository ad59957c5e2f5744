package coordinator_test

import (
	"strings"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/virt"
	"github.com/mooring-vm/mooring/shim/virt/virttest"
)

// An order was lost, came late, and was not confirmed: it is left at first. The next
// attempt takes the journal up, and so does not take what is unconfirmed for done.
func TestLeftIsTakenUp(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.SetGuest(virttest.Guest{KeepVCPUsOffline: true})
		r.hypervisor.LoseOnCall(virttest.Before)
		time.AfterFunc(time.Second, r.hypervisor.Return)
		r.want(func(w *podapi.Wanted) { w.VCPUs = 2 })
		time.Sleep(40 * time.Second)
		if last := r.agent.last(t, podapi.StateFailed); !strings.Contains(last.Error, "the guest uses 1 of its 2 vCPUs") {
			t.Errorf("report %+v", last)
		}
		if s := r.state(t); s.VCPUs.Plugged != 2 {
			t.Fatalf("vCPUs %+v, want those that were ordered", s.VCPUs)
		}
		time.Sleep(time.Minute)
		r.agent.last(t, podapi.StateFailed)
		if calls := strings.Join(r.Calls(), "|"); !strings.Contains(calls, "set vCPUs to 1") {
			t.Errorf("calls %s, want it undone", calls)
		}
	})
}

// vCPUs that stay unused and that QEMU does not give back are no success of a later attempt.
func TestUnusedStaysFailed(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.SetGuest(virttest.Guest{KeepVCPUsOffline: true, KeepVCPUs: true})
		r.want(func(w *podapi.Wanted) { w.VCPUs = 2 })
		time.Sleep(10 * time.Minute)
		for _, told := range r.agent.told() {
			if told.State == podapi.StateDone && told.Generation == 2 {
				t.Errorf("told %+v", told)
			}
		}
		r.SetGuest(virttest.Guest{})
		r.Set(func(s *virt.State) { s.VCPUs.Online = 2 }) // its user has brought it online
		time.Sleep(10 * time.Minute)
		r.agent.last(t, podapi.StateDone)
	})
}
