package kubevirtnode

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	kubevirtv1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/mooring-vm/mooring/integration/kubevirt/actor"
)

// standInLabel marks the Nodes of the actor. No other Node has it.
const standInLabel = "actor.test/stand-in"

// TestDrainOfTen drains two nodes with ten VMs of a namespace with a full quota: the node of a real
// VM, and a Node where the actor stands in for virt-handler. KubeVirt migrates five at once. All
// arrive, and the quota has its old limits.
func TestDrainOfTen(t *testing.T) {
	c := startTwoNodes(t)
	standIns := c.startStandIns(t)
	moving := c.runMovable(t, "moving")
	all := []*kubevirtv1.VirtualMachineInstance{moving}
	other := c.cordon(t, standIns[1])
	for i := range 9 {
		all = append(all, c.runStandIn(t, fmt.Sprint("stand-in-", i)))
	}
	other()
	source := c.tied(t, moving).Pod.Name
	before := c.fillQuota(t)

	sources := map[string]string{}
	for _, vmi := range all {
		sources[vmi.Name] = vmi.Status.NodeName
	}
	c.cordon(t, moving.Status.NodeName)
	c.cordon(t, standIns[0])
	for _, vmi := range all {
		c.evictToMigrate(t, vmi)
	}
	for _, vmi := range all {
		c.awaitMoved(t, vmi, sources[vmi.Name])
	}
	if now, want := c.tied(t, moving).Pod.Name, c.launcher(t, moving).Name; now != want {
		t.Errorf("the VM is tied to %s, want the migration's target %s", now, want)
	}
	c.wantNoStop(t, source)
	for _, vmi := range all {
		c.awaitReserved(t, vmi)
	}
	target := c.on(t, moving.Status.NodeName)
	if got, lowest := target.lockLimit(t, target.qemu(t, moving)),
		moving.Spec.Domain.Memory.Guest.Value(); got < lowest {
		t.Errorf("on the target, QEMU may lock %d bytes, want %d or more", got, lowest)
	}
	c.awaitFull(t, before)
}

// startStandIns adds two Nodes of the actor, until t ends.
func (c *cluster) startStandIns(t *testing.T) []string {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("",
		os.Getenv(clientcmd.RecommendedConfigPathEnvVar))
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"stand-in-1", "stand-in-2"}
	if err := actor.MakeNodes(t.Context(), c, names...); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		c.patchNode(t, name, fmt.Sprintf(`{"metadata": {"labels": {%q: ""}}}`, standInLabel))
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	ctrl.SetLogger(logr.FromSlogHandler(log.Handler()))
	ended := make(chan error, 2)
	go func() { ended <- actor.SendHeartbeats(ctx, c, names...) }()
	go func() { ended <- actor.Run(ctx, config, actor.Options{Nodes: names, Log: log}) }()
	t.Cleanup(func() {
		for _, name := range names {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
			if err := c.Delete(ctx, node); err != nil {
				t.Error(err)
			}
		}
		cancel()
		for range cap(ended) {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
	return names
}

// runStandIn runs a VM on a Node of the actor.
func (c *cluster) runStandIn(t *testing.T, name string) *kubevirtv1.VirtualMachineInstance {
	t.Helper()
	vmi := newVMI(name, withLock())
	vmi.Spec.NodeSelector = map[string]string{standInLabel: ""}
	vmi.Spec.Domain.CPU.Model = ""
	vmi.Spec.EvictionStrategy = new(kubevirtv1.EvictionStrategyLiveMigrate)
	c.run(t, vmi)
	return vmi
}
