package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-vm/mooring/api/agentapi"
)

// watchStep is the answer to one read with -w, and the output that follows.
type watchStep struct {
	launchers   []agentapi.Launcher
	notes       []string
	err         error
	out, errOut string
}

// runWatch runs -w in virtual time, with a read every ten seconds, and compares the output of each
// step. It returns the error of the command.
func runWatch(t *testing.T, output *outputFlags, write viewWriter, steps []watchStep) (err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var out, errOut bytes.Buffer
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		program := testProgram(&out, &errOut)
		reads := 0
		w := &viewWatch{Program: program, write: write, output: output, started: now,
			open: func(ctx context.Context) (<-chan struct{}, func(), error) {
				end := make(chan struct{})
				close(end) // the API server ends each watch at once
				return end, func() {}, nil
			},
			read: func(ctx context.Context) (*view, error) {
				if reads > 0 {
					compareStep(t, reads-1, steps[reads-1], &out, &errOut)
				}
				program.Now = func() time.Time { return now.Add(time.Duration(reads) * time.Hour) }
				if reads == len(steps) {
					cancel()
					return nil, ctx.Err()
				}
				s := steps[reads]
				reads++
				v := &view{notes: s.notes, launchers: []nodeLauncher{}}
				for _, l := range s.launchers {
					v.launchers = append(v.launchers, nodeLauncher{Launcher: l})
				}
				return v, s.err
			}}
		err = w.run(ctx)
		if reads < len(steps) || err != nil && reads > 0 {
			compareStep(t, reads-1, steps[reads-1], &out, &errOut)
		}
	})
	return err
}

func compareStep(t *testing.T, i int, s watchStep, out, errOut *bytes.Buffer) {
	t.Helper()
	if diff := cmp.Diff(s.out+"|"+s.errOut, out.String()+"|"+errOut.String()); diff != "" {
		t.Errorf("step %d (-want +got)\n%s", i, diff)
	}
	out.Reset()
	errOut.Reset()
}

// psFlags returns the flags of ps in a format.
func psFlags(f format, noHeaders bool) *outputFlags {
	return &outputFlags{format: &f, noHeaders: noHeaders}
}

// vmOf returns a running launcher with a heartbeat of this age.
func vmOf(name string, heartbeat float64) agentapi.Launcher {
	l := running("vms", name, 0)
	l.Heartbeat = &agentapi.Heartbeat{Watchdog: 60, Age: &heartbeat}
	return l
}

// TestWatchWithoutLaunchers reports an empty list once.
func TestWatchWithoutLaunchers(t *testing.T) {
	if err := runWatch(t, psFlags(formatTable, true), (*Program).writePs, []watchStep{
		{errOut: "no launchers on this node\n"}, {}, {},
	}); err != nil {
		t.Error(err)
	}
	if err := runWatch(t, psFlags(formatJSON, false), (*Program).writePs,
		[]watchStep{{out: "[]\n"}, {}}); err != nil {
		t.Error(err)
	}
}

// TestWatchReportsNotes reports a silent node without a change of its launchers: once, and again
// after an answer of the node.
func TestWatchReportsNotes(t *testing.T) {
	vms := []agentapi.Launcher{running("vms", "vm-1", 0)}
	silent := func(age string) []string {
		return []string{"no answer from node a: its last state is of " + age + " ago"}
	}
	said := "no answer from node a: its last state is of 4m ago\n"
	if err := runWatch(t, psFlags(formatName, false), (*Program).writePs, []watchStep{
		{launchers: vms, out: "pod/vm-1\n"},
		{launchers: vms, notes: silent("4m"), errOut: said},
		{launchers: vms, notes: silent("5m")},
		{launchers: vms},
		{launchers: vms, notes: silent("4m"), errOut: said},
	}); err != nil {
		t.Error(err)
	}
}

// TestWatchComparesTheOutput expects no row again after a change of ages or of hidden fields.
func TestWatchComparesTheOutput(t *testing.T) {
	first, older, used, stopped := vmOf("vm-1", 1), vmOf("vm-1", 120), vmOf("vm-1", 1),
		vmOf("vm-1", 1)
	used.Limits.CPU = 5
	stopped.State = agentapi.StateStopped
	row := "vms  vm-1  Running  -  -  2m  -  -  60m\n"
	if err := runWatch(t, psFlags(formatTable, true), (*Program).writePs, []watchStep{
		{launchers: []agentapi.Launcher{first}, out: "vms  vm-1  Running  -  -  1s  -  -  60m\n"},
		{launchers: []agentapi.Launcher{older}},
		{launchers: []agentapi.Launcher{used}},
		{launchers: []agentapi.Launcher{older, vmOf("vm-2", 120)},
			out: strings.ReplaceAll(strings.ReplaceAll(row, "vm-1", "vm-2"), "60m", "4h")},
		{launchers: []agentapi.Launcher{stopped, vmOf("vm-2", 120)},
			out: "vms  vm-1  Stopped  -  -  1s  -  -  5h\n"},
		{launchers: []agentapi.Launcher{stopped}, errOut: "no longer listed: vms/vm-2/compute\n"},
	}); err != nil {
		t.Error(err)
	}
}

// TestWatchRetries reports a failure once, goes on, and ends with a lasting one.
func TestWatchRetries(t *testing.T) {
	vms := []agentapi.Launcher{running("vms", "vm-1", 0)}
	down := errors.New("connection refused")
	denied := &forbiddenError{errors.New("denied")}
	err := runWatch(t, psFlags(formatName, false), (*Program).writePs, []watchStep{
		{launchers: vms, out: "pod/vm-1\n"},
		{err: down, errOut: "connection refused; retrying\n"},
		{err: down},
		{launchers: vms},
		{err: down, errOut: "connection refused; retrying\n"},
		{err: denied},
	})
	if !errors.Is(err, denied) {
		t.Errorf("error %v", err)
	}
	if err := runWatch(t, psFlags(formatName, false), (*Program).writePs,
		[]watchStep{{err: down}}); !errors.Is(err, down) {
		t.Errorf("the first read: %v", err)
	}
}

// endingServer serves lists, and ends each watch at once.
type endingServer struct {
	t       *testing.T
	answers map[string]any

	mu      sync.Mutex
	watches int
	onWatch func(n int) // called for each watch with its number
}

func (s *endingServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Query().Get("watch") != "" {
		s.watches++
		s.onWatch(s.watches)
		return
	}
	answer, ok := s.answers[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	if err := json.NewEncoder(w).Encode(answer); err != nil {
		s.t.Error(err)
	}
}

// TestWatchOutlivesTheServersWatch runs ps and events with -w, while the API server ends each
// watch. The third watch interrupts the command.
func TestWatchOutlivesTheServersWatch(t *testing.T) {
	for _, c := range []struct{ args, path, out, errOut string }{
		{"ps -A -w", statesPath, "", "no launchers in the cluster or the namespace\n"},
		{"events -A -w", eventsPath, "2026-11-21 12:00:00  Warning  First              vms/vm-1  \n" +
			"2026-11-21 12:00:00  Warning  Second             vms/vm-1  \n", ""},
	} {
		t.Run(c.args, func(t *testing.T) {
			local := time.Local
			time.Local = time.UTC
			t.Cleanup(func() { time.Local = local })
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			first, second := clusterEvent(agentapi.AgentReporter, "First"),
				clusterEvent(agentapi.AgentReporter, "Second")
			s := &endingServer{t: t, answers: map[string]any{statesPath: stateList(nil),
				"/api/v1/pods": podList(), eventsPath: eventList("7", first)}}
			s.onWatch = func(n int) {
				s.answers[eventsPath] = eventList("8", first, second)
				if n == 3 {
					cancel()
				}
			}
			serveHandler(t, s)
			var out, errOut bytes.Buffer
			program := testProgram(&out, &errOut)
			program.Name = "kubectl-mooring"
			if code := program.Run(ctx, strings.Fields(c.args)); code != ExitOK ||
				out.String() != c.out || errOut.String() != c.errOut {
				t.Errorf("exit code %d:\n%s%s", code, out.String(), errOut.String())
			}
		})
	}
}

// TestEventsWatchEndsWithoutRights ends if RBAC denies the watch.
func TestEventsWatchEndsWithoutRights(t *testing.T) {
	serveHandler(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		var answer any = eventList("7")
		if r.URL.Query().Get("watch") != "" {
			w.WriteHeader(http.StatusForbidden)
			answer = failure(http.StatusForbidden, metav1.StatusReasonForbidden, "no")
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	var out, errOut bytes.Buffer
	program := testProgram(&out, &errOut)
	program.Name = "kubectl-mooring"
	if code := program.Run(t.Context(), []string{"watch", "-A"}); code != ExitPermission {
		t.Errorf("exit code %d: %s", code, errOut.String())
	}
}
