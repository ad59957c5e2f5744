package coordinator_test

import (
	"strings"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/virt"
)

// A VM that follows its limits and cannot change keeps its size. That is no failure, and the notes
// have the reason. The memory limit of a pod with huge pages is only the launcher's overhead.
func TestFollowWithoutChange(t *testing.T) {
	for name, tt := range map[string]struct {
		limits podapi.Limits
		vm     func(*virt.State)
		notes  []string
	}{
		"no headroom": {podapi.Limits{Memory: 3 * gi, CPU: 4000}, func(s *virt.State) {
			s.VCPUs.Maximum, s.Memory.Maximum, s.Memory.Devices = 1, 0, nil
		}, []string{"vCPUs: ", "memory: "}},
		"huge pages": {podapi.Limits{Memory: 100 * mi, CPU: 1000}, func(s *virt.State) {
			s.Memory.HugePage = 2 * mi
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, r *rig) {
				r.stopShim()
				r.Set(tt.vm)
				r.agent.setDesired(func(w *podapi.Desired) { w.Limits = tt.limits })
				r.config.Follow = true
				r.startShim(t)
				time.Sleep(time.Minute)
				done := r.agent.lastReport(t, podapi.StateDone)
				for _, note := range tt.notes {
					if !strings.Contains(strings.Join(done.Notes, "; "), note) {
						t.Errorf("notes %q, want %q", done.Notes, note)
					}
				}
				for _, report := range r.agent.allReports() {
					if report.State != podapi.StateDone {
						t.Errorf("report %+v", report)
					}
				}
				if s := r.state(t); s.VCPUs.Plugged != 1 || s.Memory.Boot != gi {
					t.Errorf("the VM changed: %+v", s)
				}
			})
		})
	}
}
