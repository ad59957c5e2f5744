package kubevirtnode

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/hack/kubevirtnode"
)

// Variables name the chart and the images' tag of Mooring's last release.
const (
	envLastChart = "MOORING_E2E_LAST_CHART"
	envLastTag   = "MOORING_E2E_LAST_TAG"
)

// TestKubeVirtUpgrade upgrades KubeVirt with virt-handler below a running VM in a full namespace.
// The VM keeps its process, lock and tie. Then it moves to a launcher of the new KubeVirt.
func TestKubeVirtUpgrade(t *testing.T) {
	socket := os.Getenv(kubevirtnode.EnvUpgrade)
	if socket == "" {
		t.Skip("needs a cluster for an upgrade; `make kubevirt NODES=2 UPGRADE=1.9` has it")
	}
	c := startTwoNodes(t)
	vmi := c.runMovable(t, "outlasting")
	old, node := c.launcher(t, vmi), c.on(t, vmi.Status.NodeName)
	qemu := node.qemu(t, vmi)
	limit := node.lockLimit(t, qemu)
	c.tied(t, vmi)
	before := c.fillQuota(t)

	if err := kubevirtnode.RequestUpgrade(t.Context(), socket); err != nil {
		t.Fatalf("upgrading KubeVirt: %v", err)
	}
	node.checkUndisturbed(t, vmi, qemu, limit)
	if now := c.tied(t, vmi).Pod.Name; now != old.Name {
		t.Errorf("the VM is tied to %s, want %s", now, old.Name)
	}
	c.awaitMigration(t, c.migrate(t, vmi), kubevirtv1.MigrationSucceeded)
	c.awaitMoved(t, vmi, old.Spec.NodeName)
	now, was := compute(t, c.launcher(t, vmi)).Image, compute(t, old).Image
	if now == was {
		t.Errorf("the new launcher has the old image, %s", now)
	}
	node = c.on(t, vmi.Status.NodeName)
	if got, lowest := node.lockLimit(t, node.qemu(t, vmi)),
		vmi.Spec.Domain.Memory.Guest.Value(); got < lowest {
		t.Errorf("on the target, QEMU may lock %d bytes, want %d or more", got, lowest)
	}
	c.tied(t, vmi)
	c.wantNoStop(t, old.Name)
	c.awaitRestored(t, before)
}

// TestUpgrade upgrades Mooring from its last release below a running VM, as docs/how-to/upgrade.md
// says. The VM keeps its process and its lock, and the new agent reports its end. By its file's
// name it runs after TestUninstall.
func TestUpgrade(t *testing.T) {
	chart, tag := os.Getenv(envLastChart), os.Getenv(envLastTag)
	if chart == "" || tag == "" {
		t.Skipf("needs the last release in $%s and $%s; `make kubevirt` builds it", envLastChart,
			envLastTag)
	}
	c := start(t)
	if has, err := c.hasMooring(t.Context()); err != nil {
		t.Fatal(err)
	} else if has {
		uninstall(t) // also without TestUninstall, as with -run
		c.removeSystem(t)
	}
	if err := c.makeSystem(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.installRelease(t, chart, tag, tag)
	vmi := newVMI("upgraded", withLock())
	c.run(t, vmi)
	pod, qemu := c.launcher(t, vmi).Name, c.qemu(t, vmi)
	c.awaitEvent(t, pod, string(agentapi.ReasonVMStarted))
	limit := c.lockLimit(t, qemu)
	if lowest := vmi.Spec.Domain.Memory.Guest.Value(); limit < lowest {
		t.Errorf("with %s, QEMU may lock %d bytes, want %d or more", tag, limit, lowest)
	}

	// The old controller does not know the flags of the new chart.
	c.installRelease(t, chart, os.Getenv(envTag), tag)
	c.checkUndisturbed(t, vmi, qemu, limit)
	newChart := filepath.Join(top, "deploy/helm/mooring")
	c.installRelease(t, newChart, os.Getenv(envTag), os.Getenv(envTag))
	c.checkUndisturbed(t, vmi, qemu, limit)
	if got := fmt.Sprint(c.tied(t, vmi).VMs[0].PID); got != qemu {
		t.Errorf("the VM is tied as process %s, want %s", got, qemu)
	}
	c.wantNoStop(t, pod)
	if err := c.remove(t.Context(), vmi); err != nil {
		t.Fatal(err)
	}
	c.awaitEvent(t, pod, string(agentapi.ReasonVMGone))
}

// installRelease installs a chart with images of these tags, and returns when all pods have them.
func (c *cluster) installRelease(t *testing.T, chart, agent, controller string) {
	t.Helper()
	args := append(valuesOf(agent), "--set=images.controller.tag="+controller, "--wait",
		"--timeout=15m")
	if err := c.installChart(t.Context(), chart, args...); err != nil {
		t.Fatal(err)
	}
}

// removeSystem deletes Mooring's namespace.
func (c *cluster) removeSystem(t *testing.T) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system}}
	if err := c.Delete(t.Context(), ns); err != nil {
		t.Fatal(err)
	}
	eventually(t, "namespace "+system+" to be gone", func(ctx context.Context) error {
		err := c.Get(ctx, client.ObjectKeyFromObject(ns), ns)
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("it is there, or: %w", err)
	})
}
