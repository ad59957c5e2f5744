package suite

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
)

// lifecyclePolicy is the suite's policy for VM processes: quick, and acting.
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
	asked := strings.Replace(policy, domainRule, domainRule+"  domains: [\"vm-*\"]\n", 1) + lifecyclePolicy + lines
	return setUpWith(t, asked)
}

// cleanUpContext is for what happens when a test's own context has ended.
func cleanUpContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	t.Cleanup(cancel)
	return ctx
}

// fault is what goes wrong in the middle of a flow.
type fault struct {
	name string
	// before happens before the flow begins, and what it returns after it has ended;
	// once, however often it is called.
	before func(t *testing.T, f fixture) (after func())
	// middle happens once the flow has begun.
	middle func(t *testing.T, f fixture)
	// forgets: events from before are lost with the agent that told them.
	forgets bool
	// disturbs: the runtime may fail requests that are under way.
	disturbs bool
	// away: nobody is there to answer the pod.
	away bool
}

func faults() []fault {
	return []fault{
		{name: noFault},
		{name: agentKilled, middle: killedAndBack, forgets: true},
		{name: agentAway, before: away, forgets: true, away: true},
		{name: restart, middle: restarted, disturbs: true},
	}
}

func (x fault) begin(t *testing.T, f fixture) (end func()) {
	t.Helper()
	if x.before == nil {
		return func() {}
	}
	return x.before(t, f)
}

func (x fault) strike(t *testing.T, f fixture) {
	t.Helper()
	if x.middle != nil {
		x.middle(t, f)
	}
}

// killedAndBack kills the agent and waits for the one that systemd starts.
func killedAndBack(t *testing.T, f fixture) {
	t.Helper()
	before := f.agentPid(t)
	if err := f.agent.Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the agent to be started again", func() bool {
		pid := f.agentPid(t)
		return pid != before && pid != "0"
	}, func() string { return f.agentPid(t) })
	if err := f.agent.WaitReady(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func away(t *testing.T, f fixture) (back func()) {
	t.Helper()
	return f.killAgent(t)
}

func restarted(t *testing.T, f fixture) {
	t.Helper()
	f.restartContainerd(t)
}

// allEnv has everything run under all faults, and VMs end in all ways: half an hour.
const allEnv = "MOORING_SUITE_ALL"

// runs reports whether a case runs: one that is always run, or any with [allEnv]. The
// log names those that are left out.
func runs(t *testing.T, name string, always bool) bool {
	t.Helper()
	if always || os.Getenv(allEnv) != "" {
		return true
	}
	t.Logf("left out without %s: %s", allEnv, name)
	return false
}

// underFaults runs a flow once for each of the faults that are named, or for all there
// are with [allEnv].
func underFaults(t *testing.T, flow func(t *testing.T, f fixture, x fault), names ...string) {
	t.Helper()
	f := setUpVMs(t) // once: the agent takes its policy when it starts
	ran := 0
	for _, x := range faults() {
		if runs(t, x.name, slices.Contains(names, x.name)) {
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
