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

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/integration/cri"
)

// missedStartDelay is how much longer a VM may outlive its launcher if the agent missed the start
// of its domain. The agent then waits until it knows all launchers with this domain
// (docs/explanation/lifecycle.md). The runtime's answer takes additional time.
const missedStartDelay = 40 * time.Second

func domainName(p cri.Pod) string { return p.Annotations[api.DomainKey] }

// newDomainName returns the name for a launcher's domain. Every other one needs an owner to start.
func (l *launcher) newDomainName(uid string) string {
	if l.number%2 == 0 {
		return ownedPrefix + uid[:8]
	}
	return "vm-" + uid[:8]
}

// libvirtDomain is a launcher's VM in the node's libvirt. world.mu guards its fields.
type libvirtDomain struct {
	starting bool
	vm       *subject // nil: not started
}

// domainEnded reports whether no process of a domain runs or is about to start.
func (w *world) domainEnded(d *libvirtDomain) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !d.starting && (d.vm == nil || w.check.isGone(d.vm))
}

// startDomainInBackground starts the launcher's domain if it has one. The launcher may end before
// the domain runs.
func (w *world) startDomainInBackground(l *launcher, i *instance) {
	if !l.domain {
		return
	}
	i.domain.starting = true
	pod := l.pod
	w.background.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), renewTimeout)
		defer cancel()
		agentWasUp := w.agentUp.Load()
		vm, err := startDomain(ctx, pod)
		if err != nil {
			w.logf("the domain of launcher %d: %v", l.number, err)
		}
		if vm != nil {
			vm.name = fmt.Sprintf("domain %s of launcher %d", domainName(pod.Pod), l.number)
			vm.launcher = i.process
			if !agentWasUp || !w.agentUp.Load() {
				vm.extraTime = missedStartDelay
			}
		}
		w.setDomain(i, vm, err != nil)
	})
}

// setDomain makes a VM the one of the instance's domain, and watches it. Its end is expected if
// libvirt failed to start it, or if a stop request came during its start.
func (w *world) setDomain(i *instance, vm *subject, failed bool) {
	w.mu.Lock()
	i.domain = libvirtDomain{vm: vm}
	if vm != nil {
		vm.endExpected = failed || i.vmsEnd
	}
	w.mu.Unlock()
	if vm == nil {
		return
	}
	if err := w.check.watchDomain(vm); err != nil {
		w.logf("watching %s: %v", vm.name, err)
	}
}

// startDomain starts the pod's domain in the pod's slice. The domain's process may run even if
// libvirt reports an error.
func startDomain(ctx context.Context, pod *cri.Sandbox) (*subject, error) {
	return createDomain(ctx, domainName(pod.Pod), pod.CgroupParent())
}

// createDomain starts a domain in a slice.
func createDomain(ctx context.Context, name, slice string) (*subject, error) {
	slice = strings.TrimSuffix(slice, ".slice")
	xml := fmt.Sprintf(`<domain type='qemu'><name>%s</name><memory unit='MiB'>16</memory>
		<resource><partition>/%s</partition></resource>
		<os><type arch='x86_64' machine='q35'>hvm</type></os><vcpu>1</vcpu>
		<devices><emulator>/usr/bin/%s</emulator><memballoon model='none'/></devices></domain>`,
		name, strings.ReplaceAll(slice, "-", "/"), emulator)
	cmd := exec.CommandContext(ctx, "virsh", "create", "--paused", "/dev/stdin")
	cmd.Stdin = strings.NewReader(xml)
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("virsh create: %w: %s", err, out)
	}
	vm, readErr := processOfDomain(name)
	return vm, errors.Join(err, readErr)
}

// processOfDomain returns the process of a domain, or nil if the domain does not run.
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
	p, err := openProcess(pid)
	if errors.Is(err, unix.ESRCH) {
		return nil, nil
	}
	return &subject{process: p}, err
}
