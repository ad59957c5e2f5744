package kubevirtnode

import (
	"path/filepath"
	"sync"
	"testing"
	"time"

	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestUninstall removes Mooring beside a running VM, as docs/how-to/uninstall.md says. The VM keeps
// its process and its limit. By its file's name it runs last.
func TestUninstall(t *testing.T) {
	c := start(t)
	c.requireMooring(t)
	vmi := newVMI("remains", withLock())
	c.run(t, vmi)
	c.tied(t, vmi)
	qemu := c.qemu(t, vmi)
	limit := c.lockLimit(t, qemu)

	uninstall(t)
	c.checkUndisturbed(t, vmi, qemu, limit)
	time.Sleep(observation)
	c.checkUndisturbed(t, vmi, qemu, limit)
}

// uninstall follows docs/how-to/uninstall.md.
func uninstall(t *testing.T) {
	t.Helper()
	args := append([]string{"upgrade", "mooring", filepath.Join(top, "deploy/helm/mooring"),
		"--namespace=" + system}, values()...)
	for _, command := range [][]string{
		append(args, "--set=agent.enabled=false", "--set=fence.enabled=false",
			"--set=nodeCleanup.enabled=true", "--wait", "--timeout=15m"),
		{"uninstall", "mooring", "--namespace=" + system, "--wait", "--timeout=15m"},
	} {
		if err := helm(t.Context(), command...); err != nil {
			t.Fatal(err)
		}
	}
	install.once = sync.Once{} // the next test installs again
}

// checkUndisturbed expects a running VM with this process and this lock limit in bytes.
func (c *cluster) checkUndisturbed(
	t *testing.T, vmi *kubevirtv1.VirtualMachineInstance, qemu string, limit int64,
) {
	t.Helper()
	if now := c.qemu(t, vmi); now != qemu {
		t.Errorf("the VM was process %s and is process %s", qemu, now)
	}
	if now := c.lockLimit(t, qemu); now != limit {
		t.Errorf("QEMU might lock %d bytes and may lock %d", limit, now)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(vmi), vmi); err != nil {
		t.Fatal(err)
	}
	if vmi.Status.Phase != kubevirtv1.Running {
		t.Errorf("the VM is %s", vmi.Status.Phase)
	}
}
