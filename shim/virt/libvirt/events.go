//go:build cgo && libvirt_dlopen

package libvirt

import (
	"fmt"

	"libvirt.org/go/libvirt"
)

// registerEvents subscribes to every libvirt event about a part of [virt.State]. Changes of
// tunables have an event too, but the binding panics on it.
func (l *link) registerEvents(onEvent func(uuid, event string)) error {
	for event, register := range l.registrations() {
		id, err := register(func(d *libvirt.Domain) {
			if uuid, err := d.GetUUIDString(); err == nil {
				onEvent(uuid, event)
			}
		})
		if hasCode(err, libvirt.ERR_NO_SUPPORT, libvirt.ERR_INVALID_ARG, libvirt.ERR_RPC) {
			continue // older versions of libvirt do not have the event
		}
		if err != nil {
			return fmt.Errorf("register for %s events: %w", event, classified(err))
		}
		l.callbacks = append(l.callbacks, id)
	}
	return nil
}

// domainFunc receives the domain of an event.
type domainFunc func(*libvirt.Domain)

// registrations lists the functions that subscribe to an event, by its name in virsh-event(1).
func (l *link) registrations() map[string]func(domainFunc) (int, error) {
	c := l.conn
	return map[string]func(domainFunc) (int, error){
		"lifecycle": func(f domainFunc) (int, error) {
			return c.DomainEventLifecycleRegister(nil, l.onLifecycle(f))
		},
		"balloon-change": func(f domainFunc) (int, error) {
			return c.DomainEventBalloonChangeRegister(
				nil, callback[libvirt.DomainEventBalloonChange](f),
			)
		},
		"memory-device-size-change": func(f domainFunc) (int, error) {
			return c.DomainEventMemoryDeviceSizeChangeRegister(
				nil, callback[libvirt.DomainEventMemoryDeviceSizeChange](f),
			)
		},
		"device-added": func(f domainFunc) (int, error) {
			return c.DomainEventDeviceAddedRegister(
				nil, callback[libvirt.DomainEventDeviceAdded](f),
			)
		},
		"device-removed": func(f domainFunc) (int, error) {
			return c.DomainEventDeviceRemovedRegister(
				nil, callback[libvirt.DomainEventDeviceRemoved](f),
			)
		},
		"device-removal-failed": func(f domainFunc) (int, error) {
			return c.DomainEventDeviceRemovalFailedRegister(
				nil, callback[libvirt.DomainEventDeviceRemovalFailed](f),
			)
		},
		"vcpu-removed": func(f domainFunc) (int, error) {
			return c.DomainEventVcpuRemovedRegister(
				nil, callback[libvirt.DomainEventVcpuRemoved](f),
			)
		},
		"agent-lifecycle": func(f domainFunc) (int, error) {
			return c.DomainEventAgentLifecycleRegister(
				nil, callback[libvirt.DomainEventAgentLifecycle](f),
			)
		},
		"job-completed": func(f domainFunc) (int, error) {
			return c.DomainEventJobCompletedRegister(
				nil, callback[libvirt.DomainEventJobCompleted](f),
			)
		},
		"migration-iteration": func(f domainFunc) (int, error) {
			return c.DomainEventMigrationIterationRegister(
				nil, callback[libvirt.DomainEventMigrationIteration](f),
			)
		},
	}
}

// onLifecycle also notes each start of a domain.
func (l *link) onLifecycle(f domainFunc) libvirt.DomainEventLifecycleCallback {
	return func(_ *libvirt.Connect, d *libvirt.Domain, e *libvirt.DomainEventLifecycle) {
		if e.Event == libvirt.DOMAIN_EVENT_STARTED {
			if uuid, err := d.GetUUIDString(); err == nil { // only an invalid handle has no UUID
				l.noteStart(uuid, startID(d))
			}
		}
		f(d)
	}
}

func callback[E any](f domainFunc) func(*libvirt.Connect, *libvirt.Domain, *E) {
	return func(_ *libvirt.Connect, d *libvirt.Domain, _ *E) { f(d) }
}
