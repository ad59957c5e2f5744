package kubevirtnode

import (
	"context"
	"fmt"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api/agentapi"
)

// TestPreStop deletes a VM with Mooring's preStop hook. The hook returns when the VM has ended.
func TestPreStop(t *testing.T) {
	c := start(t)
	c.requireMooring(t)
	vmi := newVMI("stopped", map[string]string{"prestop.inject.mooring.dev": "true"})
	vmi.Spec.TerminationGracePeriodSeconds = new(int64(60))
	c.run(t, vmi)
	pod := c.tied(t, vmi).Pod.Name
	if err := c.Delete(t.Context(), vmi); err != nil {
		t.Fatal(err)
	}
	c.awaitEvent(t, pod, string(agentapi.ReasonStopRequested))
	c.awaitEvent(t, pod, string(agentapi.ReasonStopConfirmed))
	c.awaitNoQEMU(t, vmi)
}

// TestSlowShutdown evicts a VM whose guest takes a minute to shut down, as the drain of a node
// does. The guest ends by itself, with the agent and without.
func TestSlowShutdown(t *testing.T) {
	c := start(t)
	c.requireMooring(t)
	t.Run("agent there", func(t *testing.T) {
		vmi := c.runSlow(t, "slow")
		pod := c.tied(t, vmi).Pod.Name
		c.awaitSlowEnd(t, vmi)
		c.awaitEvent(t, pod, string(agentapi.ReasonStopConfirmed))
		c.wantNoStop(t, pod)
	})
	t.Run("agent away", func(t *testing.T) {
		vmi := c.runSlow(t, "slow-alone")
		t.Cleanup(func() { c.upgrade(context.WithoutCancel(t.Context()), t) })
		c.upgrade(t.Context(), t, "--set=agent.nodeSelector.absent=yes")
		c.awaitNoAgent(t)
		c.awaitSlowEnd(t, vmi)
	})
}

// runSlow runs a VM with Mooring's preStop hook and a guest that takes a minute to shut down.
func (c *cluster) runSlow(t *testing.T, name string) *kubevirtv1.VirtualMachineInstance {
	t.Helper()
	vmi := newVMI(name, map[string]string{"prestop.inject.mooring.dev": "true"})
	vmi.Spec.TerminationGracePeriodSeconds = new(int64(600))
	vmi.Spec.Domain.Firmware.KernelBoot.KernelArgs += " guest.slow-shutdown"
	c.run(t, vmi)
	return vmi
}

// awaitSlowEnd drains a VM's node of the VM and waits for the guest's end after a minute. Meanwhile
// the preStop hook runs. An earlier end shows a killed guest, or a guest without the delay.
func (c *cluster) awaitSlowEnd(t *testing.T, vmi *kubevirtv1.VirtualMachineInstance) {
	t.Helper()
	uncordon := c.cordon(t, vmi.Status.NodeName)
	began := time.Now()
	c.evict(t, vmi)
	eventually(t, "the preStop hook", func(ctx context.Context) error {
		pids, err := c.processes(ctx, "/run/mooring/[h]ook prestop")
		if err != nil || len(pids) != 1 {
			return fmt.Errorf("processes %v, or: %w", pids, err)
		}
		return nil
	})
	c.awaitPhase(t, vmi, kubevirtv1.Succeeded)
	if took := time.Since(began); took < 45*time.Second { // the guest's clock is inexact
		t.Errorf("the guest ended %s after the eviction, want a minute", took)
	}
	uncordon()
}

// evict evicts a VM's launcher. The VM has no strategy for evictions, so the pod is deleted.
func (c *cluster) evict(t *testing.T, vmi *kubevirtv1.VirtualMachineInstance) {
	t.Helper()
	if err := c.SubResource("eviction").Create(t.Context(), c.launcher(t, vmi),
		&policyv1.Eviction{}); err != nil {
		t.Fatal(err)
	}
}

func (c *cluster) awaitNoAgent(t *testing.T) {
	t.Helper()
	eventually(t, "the agent to be gone", func(ctx context.Context) error {
		pods, err := c.agents(ctx)
		if err != nil || len(pods) > 0 {
			return fmt.Errorf("%d agents, or: %w", len(pods), err)
		}
		return nil
	})
}
