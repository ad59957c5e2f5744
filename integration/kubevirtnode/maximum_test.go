package kubevirtnode

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
)

// checks is the time of two or more checks of the agent's guard.
const checks = 75 * time.Second

// TestMaximum runs a VM whose virtqemud gets KubeVirt's limit, above the maximum of the policy. The
// agent lowers QEMU's to the maximum, and virt-handler does not raise it again.
func TestMaximum(t *testing.T) {
	c := start(t)
	c.requirePluginAPI(t) // the same version has memory locks without a device
	c.requireMooring(t)
	t.Cleanup(func() { c.upgrade(context.WithoutCancel(t.Context()), t) })
	const most = 64 << 20
	c.upgrade(t.Context(), t, "--set-file=agent.policy="+policyWithMaximum(t, "64Mi"))
	vmi := newLoweredVMI("above")
	vmi.Annotations[api.ValueKey] = "64Mi"
	c.run(t, vmi)
	pod := c.tied(t, vmi).Pod.Name
	c.awaitEvent(t, pod, string(agentapi.ReasonLimitAbove))
	eventually(t, "QEMU to have the maximum", func(context.Context) error {
		if got := c.lockLimit(t, c.qemu(t, vmi)); got != most {
			return fmt.Errorf("it may lock %d bytes", got)
		}
		return nil
	})
	time.Sleep(checks) // virt-handler or the agent could raise it again
	if got := c.lockLimit(t, c.qemu(t, vmi)); got != most {
		t.Errorf("later QEMU may lock %d bytes, want the maximum", got)
	}
	lines, err := c.events(t.Context(), pod)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		if strings.HasPrefix(line, string(agentapi.ReasonLimitRepaired)) {
			t.Error(line)
		}
	}
}

// policyWithMaximum is a file with the suite's policy and another maximum.
func policyWithMaximum(t *testing.T, most string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, "deploy/policy/enforce.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	const old = "max: 64Gi\n"
	if bytes.Count(text, []byte(old)) != 1 {
		t.Fatalf("the policy has not one %q:\n%s", old, text)
	}
	file := filepath.Join(t.TempDir(), "policy.yaml")
	text = bytes.Replace(text, []byte(old), []byte("max: "+most+"\n"), 1)
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
