package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
)

func testEvents() []agentapi.Event {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.Local)
	pod := agentapi.PodRef{Namespace: "vms", Name: "vm-1", UID: "uid-1"}
	return []agentapi.Event{
		{Time: at, Type: agentapi.Warning, Reason: agentapi.ReasonMemlockRefused,
			Message: "first\nsecond", Pod: pod,
			Container: agentapi.ContainerRef{Name: "compute"}},
		{Time: at, Type: agentapi.Normal, Reason: agentapi.ReasonLimitYielded,
			Message: "left alone", Pod: agentapi.PodRef{Namespace: "lab", Name: "vm-2"}},
		{Time: at, Type: agentapi.Normal, Reason: agentapi.ReasonWouldSet,
			Message: "\x1b[2Jcleared", Pod: pod},
		{Time: at, Type: agentapi.Warning, Reason: agentapi.ReasonCgroupIneffective,
			Message: "about the node"},
		{Time: at, Type: agentapi.Warning, Reason: agentapi.ReasonVMKilled,
			Message: "SIGKILL", Pod: pod,
			Container: agentapi.ContainerRef{Name: "compute", PID: 4741}},
	}
}

func TestWatch(t *testing.T) {
	tests := map[string]struct {
		args []string
		want string
	}{
		"everything": {nil, `2026-11-21 12:00:00  Warning  MemlockRefused     vms/vm-1/compute  first; second
2026-11-21 12:00:00  Normal   LimitYielded       lab/vm-2  left alone
2026-11-21 12:00:00  Normal   WouldSet           vms/vm-1  ?[2Jcleared
2026-11-21 12:00:00  Warning  CgroupIneffective  -  about the node
2026-11-21 12:00:00  Warning  VMKilled           vms/vm-1/compute pid 4741  SIGKILL
`},
		"one pod": {[]string{"vms/vm-1"}, `2026-11-21 12:00:00  Warning  MemlockRefused     vms/vm-1/compute  first; second
2026-11-21 12:00:00  Normal   WouldSet           vms/vm-1  ?[2Jcleared
2026-11-21 12:00:00  Warning  VMKilled           vms/vm-1/compute pid 4741  SIGKILL
`},
		"by UID": {[]string{"uid-2"}, ""},
		"by name": {[]string{"vm-2"}, "2026-11-21 12:00:00  Normal   LimitYielded       lab/vm-2 " +
			" left alone\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a := startAgent(t)
			for _, event := range testEvents() {
				a.events.Record(event)
			}
			got := watchUntil(t, a, tt.args...)
			if got != tt.want {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
		})
	}
}

// watchUntil runs watch until it has received every event, and returns its output.
func watchUntil(t *testing.T, a *agent, args ...string) string {
	t.Helper()
	a.events.Record(agentapi.Event{Message: "last", Pod: agentapi.PodRef{Name: lastOf(args)}})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &interrupting{until: "last\n", interrupt: cancel}
	program := testProgram(nil, &bytes.Buffer{})
	program.Out = out
	if code := program.Run(ctx, append([]string{"watch", "--socket", a.socket}, args...)); code !=
		ExitOK {
		t.Errorf("exit code %d after an interrupt, want %d", code, ExitOK)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(out.String(), "\n"), "\n")
	return strings.Join(lines[:len(lines)-1], "")
}

// lastOf returns a pod name that passes the filter in args.
func lastOf(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// interrupting calls interrupt after a write ending in until.
type interrupting struct {
	bytes.Buffer
	until     string
	interrupt func()
}

func (i *interrupting) Write(p []byte) (int, error) {
	n, err := i.Buffer.Write(p)
	if strings.HasSuffix(i.String(), i.until) {
		i.interrupt()
	}
	return n, err
}

func TestWatchJSON(t *testing.T) {
	a := startAgent(t)
	for _, event := range testEvents()[:2] {
		event.Time = now
		a.events.Record(event)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &interrupting{until: "}\n", interrupt: cancel}
	program := testProgram(nil, &bytes.Buffer{})
	program.Out = out
	program.Run(ctx, []string{"watch", "-o", "json", "--socket", a.socket, "lab/vm-2"})
	golden(t, "watch-json", out.String())
}

func TestWatchEndsWithTheAgent(t *testing.T) {
	a := startAgent(t)
	a.events.Record(testEvents()[0])
	var errOut bytes.Buffer
	program := testProgram(nil, &errOut)
	program.Out = &interrupting{until: "\n", interrupt: func() { go a.stop() }}
	code := program.Run(t.Context(), []string{"watch", "--socket", a.socket})
	if code != ExitNotRunning ||
		!strings.Contains(errOut.String(), "the agent closed the event stream") {
		t.Errorf("exit code %d, stderr %q; want %d and the reason", code, errOut.String(),
			ExitNotRunning)
	}
}
