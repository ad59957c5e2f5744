package coordinator_test

import (
	"strings"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/coordinator"
)

// The node policy bounds a size below the pod's limits, in a resize and in a dry run.
func TestNodePolicyBoundsSize(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, r *rig) {
		r.setDesired(func(w *podapi.Desired) {
			w.Limits = podapi.Limits{Memory: 16 * gi, CPU: 8000}
			w.Policy = podapi.Bound{Rule: "tenants", Memory: 2 * gi, VCPUs: 1}
			w.Memory, w.VCPUs = 3*gi, 2
		})
		time.Sleep(time.Second)
		refused := r.agent.lastReport(t, podapi.StateRefused)
		for _, want := range []string{"memory: 3Gi exceeds", "2Gi", "vCPUs: 2 exceed", `"tenants"`} {
			if !strings.Contains(refused.Error, want) {
				t.Errorf("error %q, want %q", refused.Error, want)
			}
		}
		r.agent.requestDryRun(7, api.Size{Memory: 3 * gi})
		if d := r.dryRunAnswer(t, 7); d.State != podapi.StateRefused ||
			!strings.Contains(d.Error, `"tenants"`) {
			t.Errorf("answer to the dry run: %+v", d)
		}
		r.setDesired(func(w *podapi.Desired) { w.Memory, w.VCPUs = 2*gi, 1 })
		time.Sleep(time.Second)
		if done := r.agent.lastReport(t, podapi.StateDone); done.Actual.Memory != 2*gi {
			t.Errorf("report %+v, want 2Gi", done)
		}
	})
}

// A VM that follows its limits gets the largest size of the node policy.
func TestNodePolicyBoundsFollower(t *testing.T) {
	inBubble(t, func(c *coordinator.Config) { c.Follow = true }, func(t *testing.T, r *rig) {
		r.setDesired(func(w *podapi.Desired) {
			w.Limits = podapi.Limits{Memory: 4 * gi, CPU: 8000}
			w.Policy = podapi.Bound{Rule: "tenants", Memory: 5 * gi / 2, VCPUs: 5}
		})
		time.Sleep(time.Second)
		done := r.agent.lastReport(t, podapi.StateDone)
		if done.Actual.Memory != 5*gi/2 || done.Actual.VCPUs != 5 {
			t.Errorf("report %+v, want 2560Mi and 5 vCPUs", done)
		}
	})
}
