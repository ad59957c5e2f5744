package coordinator_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/virt"
	"github.com/mooring-vm/mooring/shim/virt/virttest"
)

// disturbances are the faults of libvirt, agent, guest, shim and other clients.
var disturbances = map[string]func(t *testing.T, r *rig){
	"libvirt goes":  func(_ *testing.T, r *rig) { r.hypervisor.Disconnect() },
	"libvirt comes": func(_ *testing.T, r *rig) { r.hypervisor.Reconnect() },
	"a call is lost": func(_ *testing.T, r *rig) {
		r.hypervisor.DisconnectOnCall(virttest.Before)
	},
	"an answer is lost": func(_ *testing.T, r *rig) {
		r.hypervisor.DisconnectOnCall(virttest.After)
	},
	"the agent goes":    func(_ *testing.T, r *rig) { r.setAgentAway(true) },
	"the agent comes":   func(_ *testing.T, r *rig) { r.setAgentAway(false) },
	"the guest refuses": func(_ *testing.T, r *rig) { r.SetGuest(refusing) },
	"the guest is slow": func(_ *testing.T, r *rig) {
		r.SetGuest(virttest.Guest{MemoryPerSecond: 8 * mi})
	},
	"the guest agrees":   func(_ *testing.T, r *rig) { r.SetGuest(virttest.Guest{}) },
	"a migration begins": func(_ *testing.T, r *rig) { r.tryMigrating(true) },
	"a migration fails":  func(_ *testing.T, r *rig) { r.tryMigrating(false) },
	"the shim restarts":  func(t *testing.T, r *rig) { r.stopShim(); r.startShim(t) },
	"the VM restarts":    func(_ *testing.T, r *rig) { r.restartVM() },
	"vCPUs change": func(_ *testing.T, r *rig) {
		r.Set(func(s *virt.State) { s.VCPUs.Plugged, s.VCPUs.Online = 3, 3 })
	},
	"memory is released": func(_ *testing.T, r *rig) {
		r.Set(func(s *virt.State) {
			for i := range s.Memory.Devices {
				s.Memory.Devices[i].Requested, s.Memory.Devices[i].Current = 0, 0
			}
		})
	},
	"another size": func(_ *testing.T, r *rig) {
		r.agent.setDesired(func(d *podapi.Desired) {
			d.VCPUs, d.Memory = 1+d.VCPUs%4, api.Bytes(1+int64(d.Generation)%4)*gi
		})
	},
	"no size": func(_ *testing.T, r *rig) {
		r.agent.setDesired(func(d *podapi.Desired) { d.Size = api.Size{} })
	},
}

// refusing is a guest that takes and gives nothing.
var refusing = virttest.Guest{KeepVCPUsOffline: true, KeepVCPUs: true, TakeMemory: 2 * mi,
	KeepMemory: 1023 * gi}

func (r *rig) setAgentAway(away bool) {
	r.agent.mu.Lock()
	defer r.agent.mu.Unlock()
	r.agent.away = away
}

func (r *rig) tryMigrating(migrating bool) {
	r.agent.mu.Lock()
	held := r.agent.migrationsHeld
	r.agent.mu.Unlock()
	if !migrating || !held {
		r.Set(func(s *virt.State) { s.Migrating = migrating })
	}
}

// restartVM starts the VM anew under the same UUID.
func (r *rig) restartVM() {
	r.starts++
	r.agent.mu.Lock()
	r.agent.start = fmt.Sprintf("%d@1", r.starts)
	r.agent.mu.Unlock()
	r.hypervisor.Restart(r.booted)
	r.Domain = r.hypervisor.First()
}

// After any finite number of faults the VM reaches its desired size, if guest and node allow it.
func TestLiveness(t *testing.T) {
	names := slices.Sorted(maps.Keys(disturbances))
	rapid.Check(t, func(rt *rapid.T) {
		kubeVirt := rapid.Bool().Draw(rt, "KubeVirt")
		faults := rapid.SliceOfN(rapid.SampledFrom(names), 0, 12).Draw(rt, "faults")
		pauses := rapid.SliceOfN(rapid.IntRange(0, 90), 12, 12).Draw(rt, "seconds")
		failure := ""
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, nil)
			if kubeVirt {
				r.booted.Memory.Devices = nil
			}
			r.restartVM()
			defer func() { r.stopShim() }()
			r.agent.setDesired(func(d *podapi.Desired) {
				d.VCPUs, d.Memory, d.Limits.Memory = 2, 2*gi, 6*gi
			})
			for i, name := range faults {
				time.Sleep(time.Duration(pauses[i]) * time.Second)
				disturbances[name](t, r)
			}
			failure = r.heal(t)
		})
		if failure != "" {
			rt.Fatal(failure)
		}
	})
}

// heal ends all faults, and describes a VM that does not reach its desired size.
func (r *rig) heal(t *testing.T) string {
	t.Helper()
	r.hypervisor.DisconnectOnCall(virttest.Never)
	r.hypervisor.Reconnect()
	r.setAgentAway(false)
	r.SetGuest(virttest.Guest{})
	r.AnswerPending()
	r.tryMigrating(false)
	r.agent.setDesired(func(d *podapi.Desired) { d.VCPUs, d.Memory = 4, 3*gi })
	time.Sleep(15 * time.Minute)
	s, reports := r.state(t), r.agent.allReports()
	memory := s.Memory.Boot
	for _, d := range s.Memory.Devices {
		memory += d.Current
	}
	if last := reports[len(reports)-1]; memory != 3*gi || s.VCPUs.Plugged != 4 ||
		last.State != podapi.StateDone || r.agent.memoryRequirement() != 4*gi {
		return fmt.Sprintf("the VM is %+v with a requirement of %d, last report %+v", s,
			r.agent.memoryRequirement(), last)
	}
	return ""
}
