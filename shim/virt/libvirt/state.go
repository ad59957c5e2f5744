//go:build cgo && libvirt_dlopen

package libvirt

import (
	"context"
	"fmt"

	"libvirt.org/go/libvirt"

	"github.com/mooring-vm/mooring/shim/virt"
)

// Phase reads the state only, which libvirt answers without waiting for other calls. The
// link knows the last start of the domain.
func (d *domain) Phase(ctx context.Context) (virt.Phase, error) {
	var phase virt.Phase
	err := d.withSession(ctx, "read its phase", func(s *session, handle *libvirt.Domain) (err error) {
		if start := s.link.start(d.uuid); d.startID != 0 && start != 0 && start != d.startID {
			return fmt.Errorf("%w: the domain was restarted", virt.ErrNoDomain)
		}
		phase, err = readPhase(handle)
		return err
	})
	if err != nil {
		return "", err // an abandoned call may still write phase
	}
	return phase, nil
}

// Life reads the state, and the migration job of a domain that has not ended.
func (d *domain) Life(ctx context.Context) (virt.Life, error) {
	life := virt.Life{UUID: d.uuid}
	err := d.withHandle(
		ctx,
		"read whether it is migrated",
		func(handle *libvirt.Domain) (err error) {
			life.Phase, life.Migrating, err = readPhaseAndMigration(handle)
			return err
		},
	)
	if err != nil {
		return virt.Life{}, err // an abandoned call may still write life
	}
	return life, nil
}

// State reads libvirt's state, and asks the guest agent for the online vCPUs if there is an agent.
// Only the agent knows: libvirt shows each plugged vCPU of QEMU as running.
func (d *domain) State(ctx context.Context) (virt.State, error) {
	s, hasAgent, err := d.readState(ctx)
	if hasAgent {
		s.VCPUs.Online = d.onlineVCPUs(ctx)
	}
	return s, err
}

// StateWithoutGuest reads libvirt's state only.
func (d *domain) StateWithoutGuest(ctx context.Context) (virt.State, error) {
	s, _, err := d.readState(ctx)
	return s, err
}

// readState reads libvirt's state, and whether the guest has an agent to query.
func (d *domain) readState(ctx context.Context) (s virt.State, hasAgent bool, err error) {
	var got struct {
		virt.State
		hasAgent bool
	}
	err = d.withSession(ctx, "read its state", func(s *session, handle *libvirt.Domain) (err error) {
		got.State, got.hasAgent, err = readHandleState(s.link, handle)
		return err
	})
	if err != nil {
		return virt.State{}, false, err // an abandoned call may still write got
	}
	return got.State, got.hasAgent, nil
}

func readHandleState(
	l *link, handle *libvirt.Domain,
) (s virt.State, hasAgent bool, err error) {
	def, err := readDefinition(handle, 0)
	if err != nil {
		return s, false, err
	}
	s = def.state()
	s.Bandwidth, err = l.bandwidth.read(func() (*libvirt.DomainSchedulerParameters, error) {
		return handle.GetSchedulerParametersFlags(libvirt.DOMAIN_AFFECT_CURRENT)
	})
	if err != nil {
		return s, false, err
	}
	s.Phase, s.Migrating, err = readPhaseAndMigration(handle)
	askAgent := s.Phase == virt.Running &&
		!s.Migrating // during a migration the target may get the answer
	return s, askAgent && def.agentConnected(), err
}

func readPhaseAndMigration(handle *libvirt.Domain) (p virt.Phase, migrating bool, err error) {
	state, reason, err := handle.GetState()
	if err != nil {
		return "", false, err
	}
	migrating, err = isMigrating(handle, state, reason)
	if err != nil {
		return "", false, err
	}
	p, err = phaseFromState(handle, state)
	return p, migrating, err
}

func readPhase(handle *libvirt.Domain) (virt.Phase, error) {
	state, _, err := handle.GetState()
	if err != nil {
		return "", err
	}
	return phaseFromState(handle, state)
}

// phaseFromState distinguishes a panicked guest from a crashed QEMU. With
// <on_crash>preserve</on_crash> the panicked guest stays, with all its memory.
func phaseFromState(handle *libvirt.Domain, state libvirt.DomainState) (virt.Phase, error) {
	if state != libvirt.DOMAIN_CRASHED {
		return phases[state], nil
	}
	active, err := handle.IsActive()
	if active {
		return virt.Panicked, err
	}
	return virt.Crashed, err
}

// phases has no entry for states that libvirt itself does not know, nor for DOMAIN_CRASHED, which
// stands for two phases.
var phases = map[libvirt.DomainState]virt.Phase{
	libvirt.DOMAIN_RUNNING:     virt.Running,
	libvirt.DOMAIN_BLOCKED:     virt.Running,
	libvirt.DOMAIN_PAUSED:      virt.Paused,
	libvirt.DOMAIN_SHUTDOWN:    virt.InShutdown,
	libvirt.DOMAIN_SHUTOFF:     virt.ShutOff,
	libvirt.DOMAIN_PMSUSPENDED: virt.Suspended,
}

// isMigrating reads the migration job on the source. A waiting target shows its migration in the
// state. Before and after that phase, the target's job has no statistics, and that error identifies
// it.
func isMigrating(handle *libvirt.Domain, state libvirt.DomainState, reason int) (bool, error) {
	switch {
	case state == libvirt.DOMAIN_SHUTOFF:
		return false, nil
	case state == libvirt.DOMAIN_PAUSED && pausedByMigration[libvirt.DomainPausedReason(reason)],
		state == libvirt.DOMAIN_RUNNING &&
			libvirt.DomainRunningReason(reason) == libvirt.DOMAIN_RUNNING_POSTCOPY:
		return true, nil
	}
	job, err := handle.GetJobStats(0)
	switch {
	case hasCode(err, libvirt.ERR_OPERATION_UNSUPPORTED): // only for the job of a target
		return true, nil
	case hasCode(err, libvirt.ERR_NO_SUPPORT, libvirt.ERR_OPERATION_INVALID):
		return false, nil
	}
	if err != nil {
		return false, err
	}
	ofMigration := job.Operation == libvirt.DOMAIN_JOB_OPERATION_MIGRATION_IN ||
		job.Operation == libvirt.DOMAIN_JOB_OPERATION_MIGRATION_OUT
	return job.Type != libvirt.DOMAIN_JOB_NONE && job.OperationSet && ofMigration, nil
}

var pausedByMigration = map[libvirt.DomainPausedReason]bool{
	libvirt.DOMAIN_PAUSED_MIGRATION:       true,
	libvirt.DOMAIN_PAUSED_STARTING_UP:     false,
	libvirt.DOMAIN_PAUSED_POSTCOPY:        true,
	libvirt.DOMAIN_PAUSED_POSTCOPY_FAILED: true,
}

// onlineVCPUs asks the guest agent, which may not answer. At most one query per domain is open.
// Concurrent callers share its answer.
func (d *domain) onlineVCPUs(ctx context.Context) int {
	ctx, cancel := context.WithTimeout(ctx, d.c.options.AgentTimeout)
	defer cancel()
	answer := d.c.agentCalls.DoChan(d.uuid, func() (any, error) {
		var n int32
		err := d.c.call(context.WithoutCancel(ctx), func(s *session) error {
			handle, err := s.handle(d.uuid)
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
