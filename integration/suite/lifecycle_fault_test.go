package suite

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
)

// lifecyclePolicy is the suite's policy for VM processes, with short periods.
const lifecyclePolicy = `
lifecycle:
  gracePeriod: 3s
  termPeriod: 5s
  fenceAfter: 20s
  libvirt:
    records: /run/libvirt/qemu
    socket: /run/libvirt/libvirt-sock
`

// domainRule lets the suite's launchers bind node-level domains.
const domainRule = "- name: tenants\n"

// setUpVMs is setUp with a policy for VM processes.
func setUpVMs(t *testing.T) fixture {
	t.Helper()
	return setUpVMsWith(t, "")
}

// setUpVMsWith is setUpVMs with more lines for the policy's lifecycle section.
func setUpVMsWith(t *testing.T, lines string) fixture {
	t.Helper()
	text := strings.Replace(policy, domainRule, domainRule+"  domains: [\"vm-*\"]\n",
		1) + lifecyclePolicy + lines
	return setUpWith(t, text)
}

// cleanUpContext returns a context for cleaning up, after the test's own context has ended.
func cleanUpContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), waitTimeout)
	t.Cleanup(cancel)
	return ctx
}

// fault is a failure during a flow.
type fault struct {
	name string
	// before causes the fault before the start of the flow. after ends the fault. It may be called
	// several times.
	before func(t *testing.T, f fixture) (after func())
	// middle causes the fault in the middle of the flow.
	middle func(t *testing.T, f fixture)
	// losesEvents: earlier events are lost with their agent.
	losesEvents bool
	// failsRequests: running requests to the runtime may fail.
	failsRequests bool
	// withoutAgent: no agent answers the pod.
	withoutAgent bool
}

func faults() []fault {
	return []fault{
		{name: noFault},
		{name: agentKilled, middle: killAndAwaitAgent, losesEvents: true},
		{name: agentAway, before: withoutAgentFor, losesEvents: true, withoutAgent: true},
		{name: restart, middle: restartRuntime, failsRequests: true},
	}
}

func (x fault) prepare(t *testing.T, f fixture) (end func()) {
	t.Helper()
	if x.before == nil {
		return func() {}
	}
	return x.before(t, f)
}

func (x fault) inject(t *testing.T, f fixture) {
	t.Helper()
	if x.middle != nil {
		x.middle(t, f)
	}
}

// killAndAwaitAgent kills the agent, and waits until systemd has restarted it.
func killAndAwaitAgent(t *testing.T, f fixture) {
	t.Helper()
	before := f.agentPid(t)
	if err := f.agent.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "systemd to restart the agent", func() bool {
		pid := f.agentPid(t)
		return pid != before && pid != "0"
	}, func() string { return f.agentPid(t) })
	if err := f.agent.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func withoutAgentFor(t *testing.T, f fixture) (back func()) {
	t.Helper()
	return f.killAgent(t)
}

func restartRuntime(t *testing.T, f fixture) {
	t.Helper()
	f.restartContainerd(t)
}

// allEnv selects all faults and all ways of abnormal ends. docs/reference/runs-by-hand.md has its duration.
const allEnv = "MOORING_SUITE_ALL"

// isSelected reports whether a case runs: always, or with [allEnv]. It logs cases that do not
// run.
func isSelected(t *testing.T, name string, always bool) bool {
	t.Helper()
	if always || os.Getenv(allEnv) != "" {
		return true
	}
	t.Logf("runs only with %s: %s", allEnv, name)
	return false
}

// underFaults runs a flow once for each named fault, or with [allEnv] for all faults.
func underFaults(t *testing.T, flow func(t *testing.T, f fixture, x fault), names ...string) {
	t.Helper()
	f := setUpVMs(t) // once: a new policy restarts the agent
	ran := 0
	for _, x := range faults() {
		if isSelected(t, x.name, slices.Contains(names, x.name)) {
			ran++
			t.Run(x.name, func(t *testing.T) { flow(t, f, x) })
		}
	}
	if ran < len(names) {
		t.Errorf("%d of the faults %q ran", ran, names)
	}
}

// The names of faults.
const (
	noFault     = "nothing fails"
	agentKilled = "agent killed in the middle"
	agentAway   = "agent away for the whole"
	restart     = "containerd restarted in the middle"
)
