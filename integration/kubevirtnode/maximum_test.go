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

	"github.com/mooring-vm/mooring/api/agentapi"
)

// guardWait is longer than two intervals of the agent's guard.
const guardWait = 75 * time.Second

// TestMaximum raises QEMU's limit to unlimited, as virt-handler of newer KubeVirts does. The agent
// lowers it to the maximum of the policy, and no other program raises it again.
func TestMaximum(t *testing.T) {
	c := start(t)
	c.requireMooring(t)
	t.Cleanup(func() { c.upgrade(context.WithoutCancel(t.Context()), t) })
	const most = 1 << 30
	c.upgrade(t.Context(), t, "--set-file=agent.policy="+policyWithMaximum(t, "1Gi"))
	vmi := newVMI("above", withLock())
	c.run(t, vmi)
	pod, qemu := c.tied(t, vmi).Pod.Name, c.qemu(t, vmi)
	c.onNode(t, "prlimit", "--memlock=unlimited:unlimited", "--pid="+qemu)
	c.awaitEvent(t, pod, string(agentapi.ReasonLimitAbove))
	eventually(t, "QEMU to have the maximum", func(ctx context.Context) error {
		text, err := c.node.Output(ctx, "cat", "/proc/"+qemu+"/limits")
		if err == nil && !strings.Contains(text, fmt.Sprintf("Max locked memory         %d ", most)) {
			err = fmt.Errorf("its limits are\n%s", text)
		}
		return err
	})
	time.Sleep(guardWait) // virt-handler or the agent could raise it again
	if got := c.lockLimit(t, c.qemu(t, vmi)); got != most {
		t.Errorf("later QEMU may lock %d bytes, want the maximum", got)
	}
	lines, err := c.events(t.Context(), pod)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		if strings.HasPrefix(line, string(agentapi.ReasonLimitRepaired)) {
			t.Errorf("the agent raised its own maximum: %s", line)
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
