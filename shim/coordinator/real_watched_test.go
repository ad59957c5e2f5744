//go:build cgo && libvirt_dlopen

package coordinator_test

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/mooring-vm/mooring/shim/virt"
)

// watchedLibvirt is a libvirt with a host device in the domain XML. It records the changes that a
// coordinator makes to the VM.
type watchedLibvirt struct {
	virt.Connection
	agent *agent

	mu                 sync.Mutex
	lifeReads          int      // calls of Life
	changedDuringLease []string // changes made during a lease
	endedBy            []string // methods by which the shim ended the VM
}

type watchedDomain struct {
	virt.Domain
	libvirt *watchedLibvirt
}

func (w *watchedLibvirt) Domain(ctx context.Context, name string) (virt.Domain, error) {
	d, err := w.Connection.Domain(ctx, name)
	if err != nil {
		return nil, err
	}
	return watchedDomain{d, w}, nil
}

func (w *watchedLibvirt) Domains(ctx context.Context) ([]virt.Domain, error) {
	all, err := w.Connection.Domains(ctx)
	for i, d := range all {
		all[i] = watchedDomain{d, w}
	}
	return all, err
}

func (w *watchedLibvirt) recordChange(change string) {
	leased, _ := w.agent.hasLease()
	w.mu.Lock()
	defer w.mu.Unlock()
	if leased {
		w.changedDuringLease = append(w.changedDuringLease, change)
	}
}

func (w *watchedLibvirt) recordEnd(how string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.endedBy = append(w.endedBy, how)
}

// findings returns the changes during a lease, and how the shim ended the VM.
func (w *watchedLibvirt) findings() (wrong, ended []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.changedDuringLease), slices.Clone(w.endedBy)
}

func (w *watchedLibvirt) lifeReadCount() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lifeReads
}

func (d watchedDomain) Life(ctx context.Context) (virt.Life, error) {
	d.libvirt.mu.Lock()
	d.libvirt.lifeReads++
	d.libvirt.mu.Unlock()
	return d.Domain.Life(ctx)
}

func (d watchedDomain) XML(ctx context.Context) (string, error) {
	text, err := d.Domain.XML(ctx)
	return strings.Replace(text, "</devices>", hostDevice, 1), err
}

func (d watchedDomain) SetVCPUs(ctx context.Context, n int) error {
	d.libvirt.recordChange("vCPUs")
	return d.Domain.SetVCPUs(ctx, n)
}

func (d watchedDomain) AttachVirtioMem(ctx context.Context, m virt.MemoryDevice) error {
	d.libvirt.recordChange("a virtio-mem device is attached")
	return d.Domain.AttachVirtioMem(ctx, m)
}

func (d watchedDomain) AttachDIMM(ctx context.Context, cell int, bytes uint64) error {
	d.libvirt.recordChange("a DIMM is attached")
	return d.Domain.AttachDIMM(ctx, cell, bytes)
}

func (d watchedDomain) DetachDIMM(ctx context.Context, alias string) error {
	d.libvirt.recordChange("a DIMM is detached")
	return d.Domain.DetachDIMM(ctx, alias)
}

func (d watchedDomain) SetBandwidth(ctx context.Context, b virt.Bandwidth) error {
	d.libvirt.recordChange("bandwidth")
	return d.Domain.SetBandwidth(ctx, b)
}

func (d watchedDomain) Shutdown(ctx context.Context, how virt.Shutdown) error {
	d.libvirt.recordEnd(string(how))
	return d.Domain.Shutdown(ctx, how)
}

func (d watchedDomain) Destroy(ctx context.Context) error {
	d.libvirt.recordEnd("destroyed")
	return d.Domain.Destroy(ctx)
}
