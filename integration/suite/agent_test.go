package suite

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/integration/cri"
	"github.com/mooring-vm/mooring/integration/node"
)

func itoa(n int) string { return strconv.Itoa(n) }

// awaitEvent waits for an event of a pod, and returns it.
func (f fixture) awaitEvent(t *testing.T, p cri.Pod, reason agentapi.Reason) agentapi.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	r, w := io.Pipe()
	defer r.Close()
	go func() {
		_ = w.CloseWithError(
			f.Run(ctx, node.Command{Args: []string{"mooring", "watch", "-o", "json"},
				Stdout: w}))
	}()
	var seen []string
	for in := json.NewDecoder(r); ; {
		var e agentapi.Event
		if err := in.Decode(&e); err != nil {
			t.Fatalf("no event %s of pod %s: %v; seen: %v", reason, p.Name, err, seen)
		}
		if e.Pod.UID == p.UID && e.Reason == reason {
			return e
		}
		seen = append(seen, fmt.Sprintf("%s %s", e.Pod.Name, e.Reason))
	}
}

func TestAgentHasOnlyTheListedCapabilities(t *testing.T) {
	f := setUp(t)
	// deploy/systemd/mooring-agent.service
	const want = 1<<unix.CAP_SYS_RESOURCE | 1<<unix.CAP_KILL | 1<<unix.CAP_BPF | 1<<unix.CAP_PERFMON
	status := f.output(t, "grep", "CapEff", "/proc/"+f.agentPid(t)+"/status")
	got, err := strconv.ParseUint(strings.TrimSpace(strings.TrimPrefix(status, "CapEff:")), 16, 64)
	if err != nil || got != want {
		t.Errorf("capabilities %x, %v, want %x", got, err, want)
	}
}

func TestAgentSocketIsForRootOnly(t *testing.T) {
	f := setUp(t)
	if got := f.output(t, "stat", "-c", "%a %U %F", agentapi.DefaultSocket); got !=
		"600 root socket" {
		t.Errorf("the socket is %s", got)
	}
}

func TestMetricsNameNoPods(t *testing.T) {
	f := setUp(t)
	p := launcher(map[string]string{api.RequiresLockKey: "true"})
	f.run(t, p, cri.Container{MemoryLimit: gib})
	text, err := f.agent.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"mooring_build_info{", "mooring_nri_"} {
		if !strings.Contains(text, want) {
			t.Errorf("no series %s", want)
		}
	}
	for _, never := range []string{p.Name, p.UID} {
		if strings.Contains(text, never) {
			t.Errorf("the metrics name the pod: %s", never)
		}
	}
}

// The agent ends on SIGTERM, before systemd sends SIGKILL.
func TestStopIsQuick(t *testing.T) {
	f := setUp(t)
	start := f.stopAgent(t)
	defer start()
	if got := f.output(t, "systemctl", "show", "--property=Result,ExecMainStatus", "--value",
		"mooring-agent.service"); got != "success\n0" && got != "0\nsuccess" {
		t.Errorf("result of the unit: %q", got)
	}
	if _, err := f.Output(t.Context(), "test", "-e", agentapi.DefaultSocket); err == nil {
		t.Error("the socket was left behind")
	}
}
