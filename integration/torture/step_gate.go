package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

// ownedPrefix starts the names of domains in the policy's requireOwner. libvirt's start gate
// refuses them without an active launcher.
const ownedPrefix = "vm-owned-"

// installGate installs the start gate into the node's libvirt, which looks for hooks at its start.
func installGate(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, "/opt/mooring/bin/mooring", "node",
		"configure").CombinedOutput()
	if err != nil {
		return fmt.Errorf("installing the start gate: %w: %s", err, out)
	}
	return systemctl(ctx, "restart", "libvirtd.service")
}

// startUnownedDomain starts a domain that no pod declares. The gate must refuse it, also while the
// agent is away. In mode observe the gate only reports.
func startUnownedDomain(ctx context.Context, w *world) (string, error) {
	if w.bare || w.domains == 0 || w.observing.Load() {
		return "", errSkip
	}
	name := fmt.Sprintf("%snobody-%d", ownedPrefix, w.count.Add(1))
	vm, err := createDomain(ctx, name, "machine.slice")
	if vm == nil && err == nil {
		return "", fmt.Errorf("domain %s: libvirt started it, and it has no process", name)
	}
	if vm == nil {
		if !strings.Contains(err.Error(), "start gate refuses") {
			return "", err // such as a libvirt that is away
		}
		return name + " was refused", nil
	}
	defer vm.close()
	if !w.observing.Load() {
		w.check.report(fmt.Sprintf("domain %s runs without a pod: %v", name, err))
	}
	return name, vm.signal(unix.SIGKILL)
}
