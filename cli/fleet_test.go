package cli

import (
	"bytes"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// TestFaultyStateOfANode gives one node a state that no agent writes, as a compromised node may. The
// launchers of the other nodes stay visible.
func TestFaultyStateOfANode(t *testing.T) {
	state := func(start int64) *v1alpha1.NodeState {
		s := &v1alpha1.NodeState{}
		l := v1alpha1.LauncherReport{VMs: []v1alpha1.VMReport{{PID: 1, StartTime: start}}}
		l.Pod.Name = "vm"
		s.Status.Launchers = []v1alpha1.LauncherReport{l}
		return s
	}
	f := &fleet{nodes: []fleetNode{
		{name: "bad", answer: answerReady, state: state(-1)},
		{name: "good", answer: answerReady, state: state(1)},
	}}
	v := f.view("")
	if len(v.launchers) != 1 || v.launchers[0].Node != "good" {
		t.Errorf("launchers %+v", v.launchers)
	}
	if len(v.notes) != 1 || !strings.Contains(v.notes[0], "unreadable state of node bad") {
		t.Errorf("notes %q", v.notes)
	}
}

// TestWrongClockOfTheLaptop expects the age of heartbeats by the clock of the API server, and
// without the header Date by the local clock.
func TestWrongClockOfTheLaptop(t *testing.T) {
	startFleet(t, []v1alpha1.NodeState{stateOf("fresh", 20*time.Second, false),
		stateOf("silent", 4*time.Minute, false)}, nil)
	for _, skew := range []time.Duration{-time.Hour, -4 * time.Minute, 0, 4 * time.Minute} {
		var out, errOut bytes.Buffer
		program := testProgram(&out, &errOut)
		program.Name = "kubectl-mooring"
		program.Now = func() time.Time { return now.Add(skew) }
		program.Run(t.Context(), []string{"status", "--no-headers"})
		lines := strings.Split(out.String(), "\n")
		if fields := strings.Fields(lines[0]); fields[1] != answerReady ||
			fields[len(fields)-1] != "20s" {
			t.Errorf("laptop %s ahead: %s", skew, lines[0])
		}
		if fields := strings.Fields(lines[1]); fields[1] != answerNone ||
			fields[len(fields)-1] != "4m" {
			t.Errorf("laptop %s ahead: %s", skew, lines[1])
		}
	}
}

func TestServerClock(t *testing.T) {
	for header, want := range map[string]time.Time{
		"":           now,
		"not a time": now,
		now.Add(time.Hour).Format(http.TimeFormat): now.Add(time.Hour),
	} {
		clock := &serverClock{local: func() time.Time { return now }}
		response, err := clock.wrap(roundTripper(func(*http.Request) (*http.Response, error) {
			return &http.Response{Header: http.Header{"Date": {header}}, Body: http.NoBody}, nil
		})).RoundTrip(nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if got := clock.now(); !got.Equal(want) {
			t.Errorf("header %q: %s, want %s", header, got, want)
		}
	}
}
