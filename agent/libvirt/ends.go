package libvirt

import (
	"context"
	"errors"
	"fmt"

	"github.com/digitalocean/go-libvirt"
	"github.com/google/uuid"

	"github.com/mooring-vm/mooring/api/vmfile"
)

// stopReasons are the reasons of libvirt's lifecycle events. Failed means the end of the emulator
// without a shutdown.
var stopReasons = map[libvirt.DomainEventStoppedDetailType]vmfile.Reason{
	libvirt.DomainEventStoppedShutdown:  vmfile.Shutdown,
	libvirt.DomainEventStoppedDestroyed: vmfile.Destroyed,
	libvirt.DomainEventStoppedCrashed:   vmfile.Crashed,
	libvirt.DomainEventStoppedMigrated:  vmfile.Migrated,
	libvirt.DomainEventStoppedSaved:     vmfile.Saved,
	libvirt.DomainEventStoppedFailed:    vmfile.Crashed,
}

// shutoffReasons are the reasons of an inactive domain.
var shutoffReasons = map[libvirt.DomainShutoffReason]vmfile.Reason{
	libvirt.DomainShutoffShutdown:  vmfile.Shutdown,
	libvirt.DomainShutoffDestroyed: vmfile.Destroyed,
	libvirt.DomainShutoffCrashed:   vmfile.Crashed,
	libvirt.DomainShutoffMigrated:  vmfile.Migrated,
	libvirt.DomainShutoffSaved:     vmfile.Saved,
	libvirt.DomainShutoffFailed:    vmfile.Crashed,
}

// FollowEnds calls ended for each end of a domain, until the connection is lost or ctx ends. Only
// an event has the reason for a transient domain, which libvirt forgets. The error is never nil.
func (d Daemon) FollowEnds(
	ctx context.Context, ended func(domain string, reason vmfile.Reason),
) error {
	err := d.call(ctx, func(l *libvirt.Libvirt) error {
		events, err := l.LifecycleEvents(ctx)
		if err != nil {
			return err
		}
		for e := range events {
			if libvirt.DomainEventType(e.Event) != libvirt.DomainEventStopped {
				continue
			}
			reason, ok := stopReasons[libvirt.DomainEventStoppedDetailType(e.Detail)]
			if !ok {
				reason = vmfile.Unknown
			}
			ended(uuid.UUID(e.Dom.UUID).String(), reason)
		}
		return errors.New("the connection is lost")
	})
	return fmt.Errorf("follow the ends of domains: %w", err)
}

// WhyInactive returns the reason for the end of a defined domain that does not run, empty if libvirt
// has none: the daemon has restarted since, or the domain still runs. For a transient domain the
// error wraps [ErrNoDomain]. It blocks until the daemon has answered or ctx ends.
func (d Daemon) WhyInactive(ctx context.Context, domain string) (reason vmfile.Reason, err error) {
	id, err := uuid.Parse(domain)
	if err != nil {
		return "", fmt.Errorf("state of domain %q: want a UUID", domain)
	}
	err = d.call(ctx, func(l *libvirt.Libvirt) error {
		found, err := l.DomainLookupByUUID(libvirt.UUID(id))
		if err != nil {
			return err
		}
		state, why, err := l.DomainGetState(found, 0)
		switch libvirt.DomainState(state) {
		case libvirt.DomainShutoff:
			reason = shutoffReasons[libvirt.DomainShutoffReason(why)]
		case libvirt.DomainCrashed:
			reason = vmfile.Crashed
		}
		return err
	})
	if err != nil {
		return "", fmt.Errorf("state of domain %s: %w", domain, err)
	}
	return reason, nil
}
