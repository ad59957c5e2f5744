package plugin_test

import (
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide/decidetest"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

// A grant stays within rule and account, and is charged.
func TestGrantLock(t *testing.T) {
	n := newNode(t, policy.Enforce)
	tenant := newPod("u1", nil)
	tenant.Namespace = "tenant-1"
	ctr, vm := n.launchVM(t, tenant, 100)
	rich := newPod("u2", decidetest.Lock("32Gi"))
	_, err := n.create(rich, newContainer(rich, "compute"))
	must(t, err)
	for _, c := range []struct {
		lock host.Limit
		want string // of the error; empty: none
		sum  int64
	}{
		{16*gi + 1, `rule "tenants" of the node policy allows up to 16Gi of locked memory`,
			32 * gi},
		{host.Unlimited, "allows no unlimited locked memory", 32 * gi},
		{10 * gi, "", 42 * gi},
		{9 * gi, "", 42 * gi},
		{16 * gi, "", 48 * gi},
	} {
		err := n.GrantLock(ctr.GetId(), vm, c.lock)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.lock, err, c.want)
		}
		if got := n.registry.Account().Granted; got != c.sum {
			t.Errorf("%s: account %d, want %d", c.lock, got, c.sum)
		}
	}
	if err := n.GrantLock("none", vm, gi); err == nil {
		t.Error("an unknown container was granted a lock")
	}
	// The next launcher gets the rest: 16Gi of 64Gi.
	late := newPod("u3", decidetest.Lock("17Gi"))
	if _, err := n.create(late, newContainer(late, "compute")); err == nil ||
		!strings.Contains(err.Error(), "nodeMax") {
		t.Errorf("error %v, want one about memlock.nodeMax", err)
	}
}

// A launcher with a memory limit is charged for it once. A raise of its VM process costs nothing,
// also on a full node.
func TestGrantLockWithinTheMemoryLimit(t *testing.T) {
	n := newNode(t, policy.Enforce)
	pod, rich := newPod("u1", decidetest.VFIO()), newPod("u2", decidetest.VFIO())
	ctr, vm := n.launchVM(t, pod, 100)
	must(t, update(n, pod, ctr, 20*gi, 0))
	_, err := n.create(rich, withMemory(newContainer(rich, "compute"), 44*gi))
	must(t, err)
	must(t, n.GrantLock(ctr.GetId(), vm, 10*gi))
	if a := n.registry.Account(); a.Granted != 64*gi || a.Unbounded != 0 {
		t.Errorf("account %+v, want 64Gi", a)
	}
}

// A raise of a VM in the node's libvirt counts in full: the launcher's memory limit does not bound
// it.
func TestGrantLockToANodeDomain(t *testing.T) {
	n := newNode(t, policy.Enforce)
	pod, rich := newPod("u1", decidetest.Domain("vms-1")), newPod("u2", decidetest.VFIO())
	ctr, vm := n.launchVM(t, pod, 100)
	must(t, update(n, pod, ctr, 20*gi, 0))
	_, err := n.create(rich, withMemory(newContainer(rich, "compute"), 44*gi))
	must(t, err)
	if err := n.GrantLock(ctr.GetId(), vm, 21*gi); err == nil ||
		!strings.Contains(err.Error(), "others have 44Gi; this one counts with 21Gi") {
		t.Errorf("error %v, want one about the account", err)
	}
	must(t, n.GrantLock(ctr.GetId(), vm, 19*gi))
	if a := n.registry.Account(); a.Granted != 64*gi || a.Unbounded != 1 {
		t.Errorf("account %+v, want 64Gi and one unbounded launcher", a)
	}
}

// The guard enforces a grant within a limit that libvirt has set for a device. The account has the
// larger one, as long as the kernel shows it.
func TestGrantLockWithinLibvirtsLimit(t *testing.T) {
	n := newNode(t, policy.Enforce)
	tenant := newPod("u1", nil)
	tenant.Namespace = "tenant-1"
	ctr, vm := n.launchVM(t, tenant, 100)
	observe := func(has host.Limit) {
		n.registry.Update(ctr.GetId(), func(l *registry.Launcher) { l.ObserveLock(vm, has) })
	}
	observe(12 * gi)
	must(t, n.GrantLock(ctr.GetId(), vm, 10*gi))
	l := n.launcher(t, tenant)
	if got := n.registry.Account().Granted; l.VMLocks()[vm.ID()] != 10*gi || got != 12*gi {
		t.Errorf("granted %v, account %d; want 10Gi and 12Gi", l.VMLocks(), got)
	}
	observe(5 * gi)
	if got := n.registry.Account().Granted; got != 10*gi {
		t.Errorf("account %d without the device, want 10Gi", got)
	}
}
