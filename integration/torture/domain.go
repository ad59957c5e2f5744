package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/integration/cri"
)

// secondLook is how long an agent that missed the start of a domain waits until it knows all claims
// to it (docs/explanation/lifecycle.md), plus time for the runtime.
const secondLook = 40 * time.Second

func domainOf(p cri.Pod) string { return "vm-" + p.UID[:8] }

// nodeDomain is a launcher's VM in the node's libvirt. Its fields need the world's lock.
type nodeDomain struct {
	starting bool
	vm       *subject // nil: not started
}

// isOver reports whether no process of a domain runs or is about to start.
func (w *world) isOver(d *nodeDomain) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !d.starting && (d.vm == nil || w.check.isGone(d.vm))
}

// startsItsDomain has libvirt start the launcher's VM in the background, if it has one there. The
// launcher may end meanwhile.
func (w *world) startsItsDomain(l *launcher, i *instance) {
	if !l.domain {
		return
	}
	i.domain.starting = true
	pod := l.sandbox
	w.background.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), renewTimeout)
		defer cancel()
		seen := w.up.Load()
		vm, err := startDomain(ctx, pod)
		if err != nil {
			w.say("the domain of launcher %d: %v", l.number, err)
		}
		if vm != nil {
			vm.asked = err != nil // libvirt ends a VM that failed to start
			vm.owner, vm.name = i.owner, fmt.Sprintf("domain %s of launcher %d", domainOf(pod.Pod), l.number)
			if !seen || !w.up.Load() {
				vm.patience = secondLook
			}
			if err := w.check.watchLate(vm); err != nil {
				w.say("watching %s: %v", vm.name, err)
			}
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		i.domain = nodeDomain{vm: vm}
	})
}

// startDomain starts the pod's VM in the node's libvirt, in the pod's slice. Its process may run
// even if libvirt failed.
func startDomain(ctx context.Context, pod *cri.Sandbox) (*subject, error) {
	name := domainOf(pod.Pod)
	slice := strings.TrimSuffix(pod.CgroupParent(), ".slice")
	xml := fmt.Sprintf(`<domain type='qemu'><name>%s</name><memory unit='MiB'>16</memory>
		<resource><partition>/%s</partition></resource>
		<os><type arch='x86_64' machine='q35'>hvm</type></os><vcpu>1</vcpu>
		<devices><emulator>/usr/bin/%s</emulator><memballoon model='none'/></devices></domain>`,
		name, strings.ReplaceAll(slice, "-", "/"), emulator)
	cmd := exec.CommandContext(ctx, "virsh", "create", "--paused", "/dev/stdin")
	cmd.Stdin = strings.NewReader(xml)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("starting it: %w: %s", err, out)
	}
	vm, lookErr := processOfDomain(name)
	return vm, errors.Join(err, lookErr)
}

// processOfDomain returns the process of a domain, or nil.
func processOfDomain(name string) (*subject, error) {
	text, err := os.ReadFile("/run/libvirt/qemu/" + name + ".pid")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, err
	}
	p, err := hold(pid)
	if errors.Is(err, unix.ESRCH) {
		return nil, nil
	}
	return &subject{process: p}, err
}
