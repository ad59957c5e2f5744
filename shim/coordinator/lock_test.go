package coordinator_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/coordinator"
	"github.com/mooring-vm/mooring/shim/resize"
	"github.com/mooring-vm/mooring/shim/virt"
	"github.com/mooring-vm/mooring/shim/virt/virttest"
)

// hostDevice is a host device assigned to a VM. With it libvirt's formula for QEMU's memory-lock
// limit depends on the guest's memory.
const hostDevice = `<hostdev mode='subsystem' type='pci' managed='yes'><source>
  <address domain='0x0000' bus='0x01' slot='0x00' function='0x0'/>
</source></hostdev></devices>`

// hostDeviceLibvirt is a libvirt with a host device in the domain XML.
type hostDeviceLibvirt struct{ virt.Connection }

func (a hostDeviceLibvirt) Domains(ctx context.Context) ([]virt.Domain, error) {
	all, err := a.Connection.Domains(ctx)
	for i := range all {
		all[i] = hostDeviceDomain{all[i]}
	}
	return all, err
}

type hostDeviceDomain struct{ virt.Domain }

func (d hostDeviceDomain) XML(ctx context.Context) (string, error) {
	text, err := d.Domain.XML(ctx)
	return strings.Replace(text, "</devices>", hostDevice, 1), err
}

// withLock runs a test with a VM of 1Gi that grows by DIMMs and has a host device. lock is the
// memory-lock limit of its launcher, in bytes.
func withLock(t *testing.T, lock int64, test func(t *testing.T, r *rig)) {
	t.Helper()
	withAgent(t, lock, func(a *agent) coordinator.Agent { return a }, test)
}

func withAgent(
	t *testing.T, lock int64, wrap func(*agent) coordinator.Agent, test func(t *testing.T, r *rig),
) {
	t.Helper()
	change := func(c *coordinator.Config) {
		c.Connection, c.Agent = hostDeviceLibvirt{c.Connection}, wrap(c.Agent.(*agent))
	}
	inBubble(t, change, func(t *testing.T, r *rig) {
		r.Set(func(s *virt.State) {
			s.Memory = virt.Memory{Boot: uint64(gi), Maximum: uint64(8 * gi), Slots: 4, Cells: 1}
		})
		r.agent.mu.Lock()
		r.agent.lock, r.agent.floor = uint64(lock), uint64(lock)
		r.agent.mu.Unlock()
		test(t, r)
	})
}

// A launcher keeps a limit above libvirt's formula. Each resize succeeds, even without a step.
func TestLauncherLock(t *testing.T) {
	withLock(t, 2*gi+512*mi, func(t *testing.T, r *rig) {
		for _, c := range []struct{ memory, lock int64 }{{gi, 2*gi + 512*mi}, {2 * gi, 3 * gi},
			{gi, 2*gi + 512*mi}} {
			r.setDesired(func(w *podapi.Desired) { w.Memory = api.Bytes(c.memory) })
			time.Sleep(time.Second)
			if done := r.agent.lastReport(t, podapi.StateDone); done.Actual.Memory !=
				uint64(c.memory) || r.agent.lock != uint64(c.lock) {
				t.Errorf("report %+v, and a lock of %d: want %d and %d", done, r.agent.lock,
					c.memory, c.lock)
			}
		}
	})
}

// The node's policy forbids a limit: the report has the agent's own words. The shim retries,
// because the policy may change.
func TestPolicyForbidsLock(t *testing.T) {
	withLock(t, 2*gi, func(t *testing.T, r *rig) {
		r.agent.mu.Lock()
		r.agent.ceiling = uint64(2 * gi)
		r.agent.mu.Unlock()
		r.setDesired(func(w *podapi.Desired) { w.Memory = 2 * gi })
		time.Sleep(time.Hour)
		if refused := r.agent.lastReport(t, podapi.StateRefused); !strings.Contains(refused.Error,
			"the agent refuses: memory lock: 3221225472 is more than 2147483648") {
			t.Errorf("report %+v", refused)
		}
		if states, want := r.agent.reportedStates(),
			[]podapi.State{podapi.StateDone, podapi.StateResizing,
				podapi.StateRefused}; !slices.Equal(states, want) || len(r.Calls()) != 0 {
			t.Errorf("states %v, want %v; calls %v", states, want, r.Calls())
		}
		r.agent.mu.Lock()
		r.agent.ceiling = 0
		r.agent.mu.Unlock()
		time.Sleep(6 * time.Minute)
		r.agent.lastReport(t, podapi.StateDone)
	})
}

// If an earlier step has changed the VM, and its rollback fails, the state is Failed, not Refused.
func TestPolicyForbidsAfterChange(t *testing.T) {
	withLock(t, 2*gi, func(t *testing.T, r *rig) {
		r.setDesired(func(w *podapi.Desired) { w.VCPUs = 2 })
		time.Sleep(time.Second)
		r.agent.mu.Lock()
		r.agent.ceiling = uint64(2 * gi)
		r.agent.mu.Unlock()
		r.SetGuest(virttest.Guest{KeepVCPUsOffline: true})
		r.setDesired(func(w *podapi.Desired) { w.VCPUs, w.Memory = 1, 2*gi })
		time.Sleep(time.Minute)
		r.agent.lastReport(t, podapi.StateFailed)
	})
}

// agentWithoutFloor is an agent that does not report the launcher's own limit.
type agentWithoutFloor struct{ *agent }

func (a agentWithoutFloor) Limits(ctx context.Context) (resize.Limits, error) {
	limits, err := a.agent.Limits(ctx)
	limits.Floor = 0
	return limits, err
}

// If the policy forbids a step after the VM has its desired size, the state is Failed, not Refused.
func TestPolicyForbidsLowering(t *testing.T) {
	withAgent(t, 4*gi, func(a *agent) coordinator.Agent { return agentWithoutFloor{a} },
		func(t *testing.T, r *rig) {
			r.setDesired(func(w *podapi.Desired) { w.VCPUs = 2 })
			time.Sleep(time.Second)
			if failed := r.agent.lastReport(t, podapi.StateFailed); !strings.Contains(failed.Error,
				"the agent refuses") || failed.Actual.VCPUs != 2 {
				t.Errorf("report %+v", failed)
			}
		})
}
