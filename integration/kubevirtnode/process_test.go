package kubevirtnode

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"

	kubevirtv1 "kubevirt.io/api/core/v1"
)

// processes are the pids of the node's processes whose command line matches a regular expression.
func (c *cluster) processes(ctx context.Context, pattern string) ([]string, error) {
	out, err := c.node.Output(ctx, "sh", "-c", `pgrep -f -- "$1" || [ $? = 1 ]`, "sh", pattern)
	return strings.Fields(out), err
}

// qemuPattern matches a VM's QEMU. The brackets keep the pattern from matching its own pgrep.
func qemuPattern(vmi *kubevirtv1.VirtualMachineInstance) string {
	return "[q]emu-system-x86_64.* guest=" + vmi.Namespace + "_" + vmi.Name + ","
}

// qemu is the pid of a VM's QEMU on the node.
func (c *cluster) qemu(t *testing.T, vmi *kubevirtv1.VirtualMachineInstance) string {
	t.Helper()
	pids, err := c.processes(t.Context(), qemuPattern(vmi))
	if err != nil {
		t.Fatal(err)
	}
	if len(pids) != 1 {
		t.Fatalf("%s has the QEMU processes %v, want one", vmi.Name, pids)
	}
	return pids[0]
}

// awaitNoQEMU waits for the end of a VM's QEMU.
func (c *cluster) awaitNoQEMU(t *testing.T, vmi *kubevirtv1.VirtualMachineInstance) {
	t.Helper()
	eventually(t, "QEMU of "+vmi.Name+" to end", func(ctx context.Context) error {
		pids, err := c.processes(ctx, qemuPattern(vmi))
		if err != nil || len(pids) > 0 {
			return fmt.Errorf("processes %v, or: %w", pids, err)
		}
		return nil
	})
}

// monitor is the pid of virt-launcher-monitor: the parent of the VM's QEMU.
func (c *cluster) monitor(t *testing.T, vmi *kubevirtv1.VirtualMachineInstance) string {
	t.Helper()
	pid := c.onNode(t, "ps", "-o", "ppid=", "-p", c.qemu(t, vmi))
	if comm := c.onNode(t, "cat", "/proc/"+pid+"/cmdline"); !strings.Contains(comm,
		"virt-launcher-monitor") {
		t.Fatalf("the parent of QEMU is %q, want virt-launcher-monitor", comm)
	}
	return pid
}

// virtLauncher is the pid of the virt-launcher process.
func (c *cluster) virtLauncher(t *testing.T, vmi *kubevirtv1.VirtualMachineInstance) string {
	t.Helper()
	return c.only(t, "pgrep", "-P", c.monitor(t, vmi), "-x", "virt-launcher")
}

// virtqemud is the pid of the VM's libvirt daemon.
func (c *cluster) virtqemud(t *testing.T, vmi *kubevirtv1.VirtualMachineInstance) string {
	t.Helper()
	return c.only(t, "pgrep", "-P", c.virtLauncher(t, vmi), "-x", "virtqemud")
}

// virtHandler is the pid of the node's virt-handler.
func (c *cluster) virtHandler(t *testing.T, _ *kubevirtv1.VirtualMachineInstance) string {
	t.Helper()
	return c.only(t, "pgrep", "-x", "virt-handler")
}

// only is the output of a command of the node that lists processes, if it lists one.
func (c *cluster) only(t *testing.T, args ...string) string {
	t.Helper()
	pids := strings.Fields(c.onNode(t, args...))
	if len(pids) != 1 {
		t.Fatalf("%v lists the processes %v, want one", args, pids)
	}
	return pids[0]
}

// lockLimit is the soft memory-lock limit of a process in bytes.
func (c *cluster) lockLimit(t *testing.T, pid string) int64 {
	t.Helper()
	text := c.onNode(t, "sed", "-n", "s/^Max locked memory *\\([^ ]*\\).*/\\1/p",
		"/proc/"+pid+"/limits")
	limit, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatalf("the lock limit of process %s: %v", pid, err)
	}
	return limit
}

func (c *cluster) onNode(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.node.Output(t.Context(), args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}
