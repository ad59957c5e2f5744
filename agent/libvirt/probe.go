package libvirt

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/digitalocean/go-libvirt"

	"github.com/mooring-vm/mooring/lifecycle/gate"
)

// ErrHookFailed means: a hook of libvirt has failed. libvirt could not execute the hook, or a hook
// without all of its files has refused the probe.
var ErrHookFailed = errors.New("a hook of libvirt fails")

const probeDisk = "/nonexistent/" + gate.Probe

// probeDomain cannot start: its disk does not exist. libvirt asks its hooks before it opens disks.
const probeDomain = `<domain type='qemu'>
  <name>` + gate.Probe + `</name>
  <memory unit='MiB'>16</memory>
  <os><type>hvm</type></os>
  <devices>
    <disk type='file' device='disk'>
      <driver name='qemu' type='raw'/>
      <source file='` + probeDisk + `'/>
      <target dev='vda' bus='virtio'/>
    </disk>
  </devices>
</domain>
`

// ProbeGate reports whether libvirt's start gate refuses its probe. Without a gate, libvirt misses
// the probe's disk. It returns any other answer as an error, such as [ErrHookFailed]. It blocks
// until libvirt has answered or ctx ends.
func (d Daemon) ProbeGate(ctx context.Context) (works bool, err error) {
	err = d.call(ctx, func(l *libvirt.Libvirt) error {
		created, err := l.DomainCreateXML(probeDomain, 0)
		if err == nil {
			return errors.Join(errors.New("the probe of the start gate runs"),
				l.DomainDestroy(created))
		}
		works = strings.Contains(err.Error(), gate.ProbeRefused)
		if works || strings.Contains(err.Error(), probeDisk) {
			return nil
		}
		answer, ok := errors.AsType[libvirt.Error](err)
		if ok && libvirt.ErrorNumber(answer.Code) == libvirt.ErrHookScriptFailed {
			return fmt.Errorf("%w: %w", ErrHookFailed, err)
		}
		return err
	})
	if err != nil {
		return false, fmt.Errorf("probe the start gate: %w", err)
	}
	return works, nil
}
