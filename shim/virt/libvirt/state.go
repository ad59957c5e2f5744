//go:build cgo && libvirt_dlopen

package libvirt

import (
	"context"

	"libvirt.org/go/libvirt"

	"github.com/mooring-vm/mooring/shim/virt"
)

// State reads what libvirt knows, and asks the guest agent for the vCPUs that are
// online if the guest has one that answers in time. Nobody else can tell: libvirt shows
// each plugged vCPU of QEMU as running.
func (d *domain) State(ctx context.Context) (virt.State, error) {
	var s virt.State
	var agent bool
	err := d.do(ctx, "read its state", func(handle *libvirt.Domain) (err error) {
		s, agent, err = stateOf(handle)
		return err
	})
	if err != nil {
		return virt.State{}, err // what ctx ended may still write to s
	}
	if agent {
		s.VCPUs.Online = d.online(ctx)
	}
	return s, nil
}

func stateOf(handle *libvirt.Domain) (s virt.State, agent bool, err error) {
	def, err := read(handle, 0)
	if err != nil {
		return s, false, err
	}
	s = def.state()
	state, reason, err := handle.GetState()
	if err != nil {
		return s, false, err
	}
	s.Phase = phases[state]
	s.Bandwidth, err = bandwidth(handle)
	if err != nil {
		return s, false, err
	}
	s.Migrating, err = migrating(handle, state, reason)
	asks := s.Phase == virt.Running && !s.Migrating // or the answer may go to the target
	return s, asks && def.agentConnected(), err
}

// phases has no entry for a state that libvirt does not know itself.
var phases = map[libvirt.DomainState]virt.Phase{
	libvirt.DOMAIN_RUNNING:     virt.Running,
	libvirt.DOMAIN_BLOCKED:     virt.Running,
	libvirt.DOMAIN_PAUSED:      virt.Paused,
	libvirt.DOMAIN_SHUTDOWN:    virt.InShutdown,
	libvirt.DOMAIN_SHUTOFF:     virt.ShutOff,
	libvirt.DOMAIN_CRASHED:     virt.Crashed,
	libvirt.DOMAIN_PMSUSPENDED: virt.Suspended,
}

// migrating asks for the job at the source. A target's domain says it by itself while it
// waits; before and after that, that there are no figures of its job says so.
func migrating(handle *libvirt.Domain, state libvirt.DomainState, reason int) (bool, error) {
	switch {
	case state == libvirt.DOMAIN_SHUTOFF:
		return false, nil
	case state == libvirt.DOMAIN_PAUSED && pausedByMigration[libvirt.DomainPausedReason(reason)],
		state == libvirt.DOMAIN_RUNNING && libvirt.DomainRunningReason(reason) == libvirt.DOMAIN_RUNNING_POSTCOPY:
		return true, nil
	}
	job, err := handle.GetJobStats(0)
	switch {
	case is(err, libvirt.ERR_OPERATION_UNSUPPORTED): // only of a target's job
		return true, nil
	case is(err, libvirt.ERR_NO_SUPPORT, libvirt.ERR_OPERATION_INVALID):
		return false, nil
	}
	if err != nil {
		return false, err
	}
	ofMigration := job.Operation == libvirt.DOMAIN_JOB_OPERATION_MIGRATION_IN || job.Operation == libvirt.DOMAIN_JOB_OPERATION_MIGRATION_OUT
	return job.Type != libvirt.DOMAIN_JOB_NONE && job.OperationSet && ofMigration, nil
}

var pausedByMigration = map[libvirt.DomainPausedReason]bool{
	libvirt.DOMAIN_PAUSED_MIGRATION:       true,
	libvirt.DOMAIN_PAUSED_STARTING_UP:     false,
	libvirt.DOMAIN_PAUSED_POSTCOPY:        true,
	libvirt.DOMAIN_PAUSED_POSTCOPY_FAILED: true,
}

// online asks the guest agent, which is the guest's and need not answer. While a
// question is open there is no second one: who asks meanwhile gets the same answer.
func (d *domain) online(ctx context.Context) int {
	ctx, cancel := context.WithTimeout(ctx, d.c.o.Agent)
	defer cancel()
	answer := d.c.asked.DoChan(d.uuid, func() (any, error) {
		var n int32
		err := d.c.call(context.WithoutCancel(ctx), func(l *link) error {
			handle, err := l.domain(d.uuid)
			if err == nil {
				n, err = handle.GetVcpusFlags(libvirt.DOMAIN_VCPU_GUEST)
			}
			return err
		})
		return int(n), err
	})
	select {
	case a := <-answer:
		if a.Err == nil {
			return a.Val.(int)
		}
	case <-ctx.Done():
	}
	return virt.Unknown
}
