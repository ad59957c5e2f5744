//go:build cgo && libvirt_dlopen

package libvirt

import (
	"fmt"

	"libvirt.org/go/libvirt"
)

// watch registers for all that State tells and libvirt has an event for. Changes of
// tunables have one too, but the binding panics when it comes.
func (l *link) watch(changed func(uuid string)) error {
	tell := func(d *libvirt.Domain) {
		if uuid, err := d.GetUUIDString(); err == nil {
			changed(uuid)
		}
	}
	for _, register := range l.registrations(tell) {
		id, err := register()
		if is(err, libvirt.ERR_NO_SUPPORT, libvirt.ERR_INVALID_ARG, libvirt.ERR_RPC) {
			continue // an older libvirt does not know the event
		}
		if err != nil {
			return fmt.Errorf("register for events: %w", explained(err))
		}
		l.callbacks = append(l.callbacks, id)
	}
	return nil
}

func (l *link) registrations(tell func(*libvirt.Domain)) []func() (int, error) {
	return []func() (int, error){
		func() (int, error) {
			return l.conn.DomainEventLifecycleRegister(nil, func(_ *libvirt.Connect, d *libvirt.Domain, _ *libvirt.DomainEventLifecycle) { tell(d) })
		},
		func() (int, error) {
			return l.conn.DomainEventBalloonChangeRegister(nil, func(_ *libvirt.Connect, d *libvirt.Domain, _ *libvirt.DomainEventBalloonChange) { tell(d) })
		},
		func() (int, error) {
			return l.conn.DomainEventMemoryDeviceSizeChangeRegister(nil, func(_ *libvirt.Connect, d *libvirt.Domain, _ *libvirt.DomainEventMemoryDeviceSizeChange) { tell(d) })
		},
		func() (int, error) {
			return l.conn.DomainEventDeviceAddedRegister(nil, func(_ *libvirt.Connect, d *libvirt.Domain, _ *libvirt.DomainEventDeviceAdded) { tell(d) })
		},
		func() (int, error) {
			return l.conn.DomainEventDeviceRemovedRegister(nil, func(_ *libvirt.Connect, d *libvirt.Domain, _ *libvirt.DomainEventDeviceRemoved) { tell(d) })
		},
		func() (int, error) {
			return l.conn.DomainEventDeviceRemovalFailedRegister(nil, func(_ *libvirt.Connect, d *libvirt.Domain, _ *libvirt.DomainEventDeviceRemovalFailed) { tell(d) })
		},
		func() (int, error) {
			return l.conn.DomainEventVcpuRemovedRegister(nil, func(_ *libvirt.Connect, d *libvirt.Domain, _ *libvirt.DomainEventVcpuRemoved) { tell(d) })
		},
		func() (int, error) {
			return l.conn.DomainEventAgentLifecycleRegister(nil, func(_ *libvirt.Connect, d *libvirt.Domain, _ *libvirt.DomainEventAgentLifecycle) { tell(d) })
		},
		func() (int, error) {
			return l.conn.DomainEventJobCompletedRegister(nil, func(_ *libvirt.Connect, d *libvirt.Domain, _ *libvirt.DomainEventJobCompleted) { tell(d) })
		},
		func() (int, error) {
			return l.conn.DomainEventMigrationIterationRegister(nil, func(_ *libvirt.Connect, d *libvirt.Domain, _ *libvirt.DomainEventMigrationIteration) { tell(d) })
		},
	}
}
