package kubevirtnode

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api/agentapi"
)

// withLock makes Mooring give the launcher the lock that KubeVirt would give a VM with a device.
func withLock() map[string]string {
	return map[string]string{"requires-lock.memlock.mooring.dev": "true"}
}

// TestLock boots a VM that requires a lock. QEMU has the lock, and the launcher's other processes,
// too.
func TestLock(t *testing.T) {
	c := start(t)
	c.requireMooring(t)
	vmi := newVMI("locked", withLock())
	c.run(t, vmi)
	lowest := vmi.Spec.Domain.Memory.Guest.Value()
	for _, pid := range []string{c.qemu(t, vmi), c.monitor(t, vmi)} {
		if got := c.lockLimit(t, pid); got < lowest {
			t.Errorf("process %s may lock %d bytes, want at least %d", pid, got, lowest)
		}
	}
	l := c.tied(t, vmi)
	if s := l.Settings[0]; s.Status != agentapi.StatusApplied {
		t.Errorf("the setting is %+v, want it applied", s)
	}
}

// TestRefusal asks for a larger lock than the policy allows. The VM's owner finds the reason on the
// VM.
func TestRefusal(t *testing.T) {
	c := start(t)
	c.requireMooring(t)
	annotations := withLock()
	annotations["guest-memory.memlock.mooring.dev"] = "400Gi"
	vmi := newVMI("refused", annotations)
	c.create(t, vmi)
	c.awaitEvent(t, vmi.Name, string(agentapi.ReasonMemlockRefused))
}

// TestTie runs a VM and reads `mooring ps`, as a user does. The VM's QEMU belongs to its pod.
// libvirt starts further QEMUs to learn their abilities, and they are no VMs.
func TestTie(t *testing.T) {
	c := start(t)
	c.requireMooring(t)
	vmi := newVMI("tied", nil)
	c.run(t, vmi)
	l := c.tied(t, vmi)
	if pod := c.launcher(t, vmi); l.Pod.Name != pod.Name || l.Container.Name != "compute" {
		t.Errorf("the VM belongs to %s, container %s", l.Pod.Name, l.Container.Name)
	}
	if got, want := fmt.Sprint(l.VMs[0].PID), c.qemu(t, vmi); got != want {
		t.Errorf("the VM's process is %s, want %s", got, want)
	}
	lines, err := c.events(t.Context(), l.Pod.Name)
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(strings.Join(lines, "\n"), string(agentapi.ReasonVMStarted)); n != 1 {
		t.Errorf("%d Events about a start, want 1:\n%s", n, strings.Join(lines, "\n"))
	}
}

// tied is the launcher of a VM in the output of `mooring ps`, once it has one VM.
func (c *cluster) tied(
	t *testing.T, vmi *kubevirtv1.VirtualMachineInstance,
) (found agentapi.Launcher) {
	t.Helper()
	pod := c.launcher(t, vmi).Name
	eventually(t, "mooring ps to have the VM of "+pod, func(ctx context.Context) error {
		all, err := listLaunchers(ctx)
		if err != nil {
			return err
		}
		for _, l := range all {
			if l.Pod.Name == pod && len(l.VMs) == 1 && l.VMs[0].State == agentapi.VMRunning {
				found = l
				return nil
			}
		}
		return fmt.Errorf("launchers are %+v", all)
	})
	return found
}

func listLaunchers(ctx context.Context) ([]agentapi.Launcher, error) {
	out, err := mooring(ctx, "ps", "-n", namespace, "-o", "json")
	if err != nil {
		return nil, err
	}
	var all []agentapi.Launcher
	return all, json.Unmarshal(out, &all)
}

// mooring runs the program that `make build` has built, and returns its output.
func mooring(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(top, "bin", "mooring"), args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("mooring %s: %w\n%s", args[0], err, errs.String())
	}
	return out.Bytes(), nil
}
