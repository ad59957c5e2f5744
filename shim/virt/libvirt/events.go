//go:build cgo && libvirt_dlopen

package libvirt

import (
	"fmt"

	"libvirt.org/go/libvirt"
)

// watch registers for all that State tells and libvirt has an event for. Changes of
// tunables have one too, but the binding panics when it comes.
func (l *link) registerEvents(onEvent func(uuid, event string)) error {
	for event, register := range l.registrations() {
		id, err := register(func(d *libvirt.Domain) {
			if uuid, err := d.GetUUIDString(); err == nil {
				onEvent(uuid, event)
			}
		})
		if hasCode(err, libvirt.ERR_NO_SUPPORT, libvirt.ERR_INVALID_ARG, libvirt.ERR_RPC) {
			continue // an older libvirt does not know the event
		}
		if err != nil {
			return fmt.Errorf("register for %s events: %w", event, classified(err))
		}
		l.callbacks = append(l.callbacks, id)
	}
	return nil
}

type domainFunc func(*libvirt.Domain)

// registrations have the names of virsh-event(1).
func (l *link) registrations() map[string]func(domainFunc) (int, error) {
	return map[string]func(domainFunc) (int, error){
		"lifecycle": func(notify domainFunc) (int, error) {
			return l.conn.DomainEventLifecycleRegister(nil, func(_ *libvirt.Connect, d *libvirt.Domain, e *libvirt.DomainEventLifecycle) {
				if e.Event == libvirt.DOMAIN_EVENT_STARTED {
					l.replaceHandle(d)
				}
				notify(d)
			})
		},
		"balloon-change": func(notify domainFunc) (int, error) {
			return l.conn.DomainEventBalloonChangeRegister(nil, func(_ *libvirt.Connect, d *libvirt.Domain, _ *libvirt.DomainEventBalloonChange) { notify(d) })
		},
		"memory-device-size-change": func(notify domainFunc) (int, error) {
			return l.conn.DomainEventMemoryDeviceSizeChangeRegister(nil, func(_ *libvirt.Connect, d *libvirt.Domain, _ *libvirt.DomainEventMemoryDeviceSizeChange) { notify(d) })
		},
		"device-added": func(notify domainFunc) (int, error) {
			return l.conn.DomainEventDeviceAddedRegister(nil, func(_ *libvirt.Connect, d *libvirt.Domain, _ *libvirt.DomainEventDeviceAdded) { notify(d) })
		},
		"device-removed": func(notify domainFunc) (int, error) {
			return l.conn.DomainEventDeviceRemovedRegister(nil, func(_ *libvirt.Connect, d *libvirt.Domain, _ *libvirt.DomainEventDeviceRemoved) { notify(d) })
		},
		"device-removal-failed": func(notify domainFunc) (int, error) {
			return l.conn.DomainEventDeviceRemovalFailedRegister(nil, func(_ *libvirt.Connect, d *libvirt.Domain, _ *libvirt.DomainEventDeviceRemovalFailed) { notify(d) })
		},
		"vcpu-removed": func(notify domainFunc) (int, error) {
			return l.conn.DomainEventVcpuRemovedRegister(nil, func(_ *libvirt.Connect, d *libvirt.Domain, _ *libvirt.DomainEventVcpuRemoved) { notify(d) })
		},
		"agent-lifecycle": func(notify domainFunc) (int, error) {
			return l.conn.DomainEventAgentLifecycleRegister(nil, func(_ *libvirt.Connect, d *libvirt.Domain, _ *libvirt.DomainEventAgentLifecycle) { notify(d) })
		},
		"job-completed": func(notify domainFunc) (int, error) {
			return l.conn.DomainEventJobCompletedRegister(nil, func(_ *libvirt.Connect, d *libvirt.Domain, _ *libvirt.DomainEventJobCompleted) { notify(d) })
		},
		"migration-iteration": func(notify domainFunc) (int, error) {
			return l.conn.DomainEventMigrationIterationRegister(nil, func(_ *libvirt.Connect, d *libvirt.Domain, _ *libvirt.DomainEventMigrationIteration) { notify(d) })
		},
	}
}
