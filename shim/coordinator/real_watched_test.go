//go:build cgo && libvirt_dlopen

package coordinator_test

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/mooring-vm/mooring/shim/virt"
)

// watched is a libvirt whose VM has a device of the host, as far as its definition
// tells. What a coordinator does to the VM is noted.
type watched struct {
	virt.Connection
	agent *agent

	mu    sync.Mutex
	looks int      // at where the VM is in its life
	wrong []string // what was changed although a lease holds
	ended []string // who ended the VM
}

type watchedDomain struct {
	virt.Domain
	by *watched
}

func (w *watched) Domain(ctx context.Context, name string) (virt.Domain, error) {
	d, err := w.Connection.Domain(ctx, name)
	if err != nil {
		return nil, err
	}
	return watchedDomain{d, w}, nil
}

func (w *watched) Domains(ctx context.Context) ([]virt.Domain, error) {
	all, err := w.Connection.Domains(ctx)
	for i, d := range all {
		all[i] = watchedDomain{d, w}
	}
	return all, err
}

func (w *watched) changes(what string) {
	leased, _ := w.agent.hasLease()
	w.mu.Lock()
	defer w.mu.Unlock()
	if leased {
		w.wrong = append(w.wrong, what)
	}
}

func (w *watched) ends(how string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = append(w.ended, how)
}

// noted returns what was changed during a migration, and who ended the VM.
func (w *watched) noted() (wrong, ended []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.wrong), slices.Clone(w.ended)
}

func (w *watched) looked() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.looks
}

func (d watchedDomain) Life(ctx context.Context) (virt.Life, error) {
	d.by.mu.Lock()
	d.by.looks++
	d.by.mu.Unlock()
	return d.Domain.Life(ctx)
}

func (d watchedDomain) XML(ctx context.Context) (string, error) {
	text, err := d.Domain.XML(ctx)
	return strings.Replace(text, "</devices>", hostDevice, 1), err
}

func (d watchedDomain) SetVCPUs(ctx context.Context, n int) error {
	d.by.changes("vCPUs")
	return d.Domain.SetVCPUs(ctx, n)
}

func (d watchedDomain) AttachDIMM(ctx context.Context, cell int, bytes uint64) error {
	d.by.changes("a DIMM is attached")
	return d.Domain.AttachDIMM(ctx, cell, bytes)
}

func (d watchedDomain) DetachDIMM(ctx context.Context, alias string) error {
	d.by.changes("a DIMM is detached")
	return d.Domain.DetachDIMM(ctx, alias)
}

func (d watchedDomain) SetBandwidth(ctx context.Context, b virt.Bandwidth) error {
	d.by.changes("bandwidth")
	return d.Domain.SetBandwidth(ctx, b)
}

func (d watchedDomain) Shutdown(ctx context.Context, how virt.Shutdown) error {
	d.by.ends(string(how))
	return d.Domain.Shutdown(ctx, how)
}

func (d watchedDomain) Destroy(ctx context.Context) error {
	d.by.ends("destroyed")
	return d.Domain.Destroy(ctx)
}
