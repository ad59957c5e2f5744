package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/podapi"
)

// usedVM is a launcher whose VM process has a sample.
func usedVM() agentapi.Launcher {
	cpu := int64(1500)
	l := vfio("vms")
	l.Limits = podapi.Limits{Memory: 5 << 30, CPU: 2000}
	l.VMs = []agentapi.VM{{PID: 43, StartTime: 900, State: agentapi.VMRunning, Since: now,
		Usage: &agentapi.Usage{Memory: 4 << 30, Locked: 3 << 30, Pinned: 1 << 20, CPU: &cpu,
			PinnedPer: agentapi.PerProcess}}}
	return l
}

// The commands of a laptop ask the agent on a node without Kubernetes.
func TestNodeCommands(t *testing.T) {
	a := startAgent(t, usedVM(), refused(), observed(), vfio("lab"))
	ready := testNode
	ready.NRI = agentapi.NRI{State: agentapi.NRISynchronized, Since: now}
	a.node.Store(&ready)
	goldens(t, a, map[string][]string{
		"status":      {"status"},
		"status-json": {"status", "-o", "json"},
		"top":         {"top"},
		"top-json":    {"top", "-o", "json"},
		"ps-lab":      {"ps", "-n", "lab", "--no-headers"},
		"ps-name":     {"ps", "-A", "-o", "name"},
		"ps-jsonpath": {"ps", "-o", `jsonpath={range [*]}{.pod.namespace}{"\n"}{end}`},
	})
}

func TestStatusOfAnUnreadyNode(t *testing.T) {
	got := run(t.Context(), t, startAgent(t).socket, "status")
	if got.code != ExitFailure || !strings.Contains(got.out, "NotReady") ||
		!strings.Contains(got.out, "this node: Connected: synchronize: timeout") {
		t.Errorf("%+v", got)
	}
}

// Without -w events ends after the latest events.
func TestEvents(t *testing.T) {
	a := startAgent(t)
	for _, event := range testEvents() {
		a.events.Record(event)
	}
	got := run(t.Context(), t, a.socket, "events")
	if lines := strings.Count(got.out, "\n"); got.code != ExitOK || lines != len(testEvents()) {
		t.Errorf("%d lines, want %d: %+v", lines, len(testEvents()), got)
	}
	if got := run(t.Context(), t, a.socket, "events", "-n", "none"); got.out != "" {
		t.Errorf("events of another namespace: %s", got.out)
	}
}

// An agent on this machine answers `mooring`, and a cluster `kubectl mooring`.
func TestChoiceOfTheCluster(t *testing.T) {
	a := startAgent(t, vfio("vms"))
	kubeconfig := t.TempDir() + "/none.conf"
	t.Setenv("KUBECONFIG", kubeconfig)
	for name, c := range map[string]struct {
		program string
		args    []string
		agent   bool
	}{
		"agent":             {"mooring", nil, true},
		"plugin":            {"kubectl-mooring", nil, false},
		"plugin and socket": {"kubectl-mooring", []string{"--socket", a.socket}, true},
		"context":           {"mooring", []string{"--context", "c"}, false},
		"kubeconfig":        {"mooring", []string{"--kubeconfig", kubeconfig}, false},
		"empty kubeconfig":  {"kubectl-mooring", []string{"--kubeconfig="}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			program := testProgram(&out, &errOut)
			program.Name, program.defaultSocket = c.program, a.socket
			code := program.Run(t.Context(), append([]string{"ps"}, c.args...))
			if asked := code == ExitOK; asked != c.agent {
				t.Errorf("exit code %d, asked the agent: %v\n%s%s", code, asked, out.String(),
					errOut.String())
			}
		})
	}
}
