//go:build cgo && libvirt_dlopen

package libvirt

import (
	"fmt"

	"libvirt.org/go/libvirt"
)

// watch registers for all that State tells and libvirt has an event for. Changes of
// tunables have one too, but the binding panics when it comes.
func (l *link) watch(told func(uuid, event string)) error {
	for event, register := range l.registrations() {
		id, err := register(func(d *libvirt.Domain) {
			if uuid, err := d.GetUUIDString(); err == nil {
				told(uuid, event)
			}
		})
		if is(err, libvirt.ERR_NO_SUPPORT, libvirt.ERR_INVALID_ARG, libvirt.ERR_RPC) {
			continue // an older libvirt does not know the event
		}
		if err != nil {
			return fmt.Errorf("register for %s events: %w", event, explained(err))
		}
		l.callbacks = append(l.callbacks, id)
	}
	return nil
}

type listener func(*libvirt.Domain)

// registrations have the names of virsh-event(1).
func (l *link) registrations() map[string]func(listener) (int, error) {
	return map[string]func(listener) (int, error){
		"lifecycle": func(tell listener) (int, error) {
			return l.conn.DomainEventLifecycleRegister(nil, func(_ *libvirt.Connect, d *libvirt.Domain, e *libvirt.DomainEventLifecycle) {
				if e.Event == libvirt.DOMAIN_EVENT_STARTED {
					l.startedAnew(d)
				}
				tell(d)
			})
		},
		"balloon-change": func(tell listener) (int, error) {
			return l.conn.DomainEventBalloonChangeRegister(nil, func(_ *libvirt.Connect, d *libvirt.Domain, _ *libvirt.DomainEventBalloonChange) { tell(d) })
		},
		"memory-device-size-change": func(tell listener) (int, error) {
			return l.conn.DomainEventMemoryDeviceSizeChangeRegister(nil, func(_ *libvirt.Connect, d *libvirt.Domain, _ *libvirt.DomainEventMemoryDeviceSizeChange) { tell(d) })
		},
		"device-added": func(tell listener) (int, error) {
			return l.conn.DomainEventDeviceAddedRegister(nil, func(_ *libvirt.Connect, d *libvirt.Domain, _ *libvirt.DomainEventDeviceAdded) { tell(d) })
		},
		"device-removed": func(tell listener) (int, error) {
			return l.conn.DomainEventDeviceRemovedRegister(nil, func(_ *libvirt.Connect, d *libvirt.Domain, _ *libvirt.DomainEventDeviceRemoved) { tell(d) })
		},
		"device-removal-failed": func(tell listener) (int, error) {
			return l.conn.DomainEventDeviceRemovalFailedRegister(nil, func(_ *libvirt.Connect, d *libvirt.Domain, _ *libvirt.DomainEventDeviceRemovalFailed) { tell(d) })
		},
		"vcpu-removed": func(tell listener) (int, error) {
			return l.conn.DomainEventVcpuRemovedRegister(nil, func(_ *libvirt.Connect, d *libvirt.Domain, _ *libvirt.DomainEventVcpuRemoved) { tell(d) })
		},
		"agent-lifecycle": func(tell listener) (int, error) {
			return l.conn.DomainEventAgentLifecycleRegister(nil, func(_ *libvirt.Connect, d *libvirt.Domain, _ *libvirt.DomainEventAgentLifecycle) { tell(d) })
		},
		"job-completed": func(tell listener) (int, error) {
			return l.conn.DomainEventJobCompletedRegister(nil, func(_ *libvirt.Connect, d *libvirt.Domain, _ *libvirt.DomainEventJobCompleted) { tell(d) })
		},
		"migration-iteration": func(tell listener) (int, error) {
			return l.conn.DomainEventMigrationIterationRegister(nil, func(_ *libvirt.Connect, d *libvirt.Domain, _ *libvirt.DomainEventMigrationIteration) { tell(d) })
		},
	}
}
