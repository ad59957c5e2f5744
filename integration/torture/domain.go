package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"github.com/mooring-vm/mooring/integration/cri"
)

func domainOf(p cri.Pod) string { return "vm-" + p.UID[:8] }

// startDomain has the node's libvirt start the pod's VM, in the pod's slice.
func (w *world) startDomain(ctx context.Context, l *launcher, i *instance) (*subject, error) {
	name := domainOf(l.sandbox.Pod)
	slice := strings.TrimSuffix(l.sandbox.CgroupParent(), ".slice")
	xml := fmt.Sprintf(`<domain type='qemu'><name>%s</name><memory unit='MiB'>16</memory>
		<resource><partition>/%s</partition></resource>
		<os><type arch='x86_64' machine='q35'>hvm</type></os><vcpu>1</vcpu>
		<devices><emulator>/usr/bin/%s</emulator><memballoon model='none'/></devices></domain>`,
		name, strings.ReplaceAll(slice, "-", "/"), emulator)
	cmd := exec.CommandContext(ctx, "virsh", "create", "--paused", "/dev/stdin")
	cmd.Stdin = strings.NewReader(xml)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("starting domain %s: %w: %s", name, err, out)
	}
	text, err := os.ReadFile("/run/libvirt/qemu/" + name + ".pid")
	if err != nil {
		return nil, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return nil, err
	}
	p, err := hold(pid)
	if err != nil {
		return nil, err
	}
	return &subject{process: p, owner: i.owner, name: fmt.Sprintf("domain %s of launcher %d", name, l.number)}, nil
}
