package plugin_test

import (
	"strings"
	"testing"

	nri "github.com/containerd/nri/pkg/api"

	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide/decidetest"
	"github.com/mooring-vm/mooring/lifecycle/host"
)

// successor returns another container of a launcher.
func successor(pod *nri.PodSandbox) *nri.Container {
	ctr := newContainer(pod, "compute")
	ctr.Id += "-2"
	return ctr
}

// A VM process of a replaced container raises its lock. The account of the others has the successor
// of the container, and not the container itself.
func TestGrantLockOfAReplacedLauncher(t *testing.T) {
	n := newNode(t, policy.Enforce)
	n.Policy.Get().Memlock.NodeMax = 30 * gi
	pod := newPod("u1", decidetest.Lock("10Gi"))
	old, vm := n.launchVM(t, pod, 100)
	_, err := n.create(pod, successor(pod))
	must(t, err)
	must(t, n.GrantLock(old.GetId(), vm, 20*gi)) // the successor has 10Gi
	want := "others have 10Gi; this one counts with 21Gi"
	if err := n.GrantLock(old.GetId(), vm, 21*gi); err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want one with %q", err, want)
	}
	if a := n.registry.Account(); a.Granted != 30*gi {
		t.Errorf("account %d, want the 20Gi of the VM and 10Gi of the successor", a.Granted)
	}
}

// The successor of a launcher fits beside the VM process that the launcher has left.
func TestSuccessorCountsTheVMThatIsLeft(t *testing.T) {
	n := newNode(t, policy.Enforce)
	n.Policy.Get().Memlock.NodeMax = 30 * gi
	pod := newPod("u1", decidetest.Lock("20Gi"))
	old, _ := n.launchVM(t, pod, 100)
	want := "others have 20Gi; this one counts with 20Gi"
	if _, err := n.create(pod, successor(pod)); err == nil || !strings.Contains(err.Error(), want) {
		t.Fatalf("error %v, want one with %q", err, want)
	}
	if a := n.registry.Account(); a.Granted != 20*gi {
		t.Errorf("account %d, want the 20Gi of the VM", a.Granted)
	}
	n.registry.Release(old.GetId())
	_, err := n.create(pod, successor(pod))
	must(t, err)
}

// A launcher without a VM process makes room for its successor.
func TestSuccessorTakesThePlaceOfALauncher(t *testing.T) {
	n := newNode(t, policy.Enforce)
	n.Policy.Get().Memlock.NodeMax = 30 * gi
	pod := newPod("u1", decidetest.Lock("20Gi"))
	ctr := newContainer(pod, "compute")
	_, err := n.create(pod, ctr)
	must(t, err)
	n.start(ctr, 100, host.Rlimit{Soft: 20 * gi, Hard: 20 * gi})
	must(t, n.PostStartContainer(t.Context(), pod, ctr))
	_, err = n.create(pod, successor(pod))
	must(t, err)
	if a := n.registry.Account(); a.Granted != 20*gi {
		t.Errorf("account %d, want 20Gi", a.Granted)
	}
}
