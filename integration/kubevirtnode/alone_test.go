package kubevirtnode

import (
	"testing"

	kubevirtv1 "kubevirt.io/api/core/v1"
)

// startAlone returns the cluster before the installation of Mooring: the basis of comparisons. By
// its file's name, this file's tests are the first ones.
func startAlone(t *testing.T) *cluster {
	t.Helper()
	c := start(t)
	has, err := c.hasMooring(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if has {
		t.Fatal("the cluster has Mooring: want a new one for each run")
	}
	return c
}

// TestLockAlone shows that KubeVirt ignores a lock which only an annotation requires.
func TestLockAlone(t *testing.T) {
	c := startAlone(t)
	vmi := newVMI("alone", withLock())
	c.run(t, vmi)
	inherited := c.lockLimit(t, c.monitor(t, vmi))
	got, guest := c.lockLimit(t, c.qemu(t, vmi)), vmi.Spec.Domain.Memory.Guest.Value()
	if got != inherited || got >= guest {
		t.Errorf("QEMU may lock %d bytes, want the launcher's %d, less than the guest's %d", got,
			inherited, guest)
	}
	t.Logf("KubeVirt alone: QEMU may lock %d bytes of a guest of %d", got, guest)
}

// TestLockOfABindingAlone starts a VM with a network binding that makes QEMU lock its memory.
// Without a limit for it QEMU fails. TestLockOfABinding runs the same VM with Mooring.
func TestLockOfABindingAlone(t *testing.T) {
	c := startAlone(t)
	vmi := newBoundVMI("bound-alone", nil)
	c.create(t, vmi)
	c.awaitEventWith(t, vmi.Name, "mlockall")
	c.awaitNoQEMU(t, vmi)
	if c.get(t, vmi); vmi.Status.Phase == kubevirtv1.Running {
		t.Error("the VM runs without a lock")
	}
}

// TestFaultsAlone measures what KubeVirt alone does after each fault.
func TestFaultsAlone(t *testing.T) {
	c := startAlone(t)
	for _, f := range faults() {
		t.Run(f.vm, func(t *testing.T) {
			vmi := newVMI("alone-"+f.vm, nil)
			c.run(t, vmi)
			alone[f.name] = c.observe(t, f, vmi)
		})
	}
}
