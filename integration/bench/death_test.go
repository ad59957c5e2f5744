package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/integration/bench/report"
	"github.com/mooring-vm/mooring/lifecycle/host"
)

// buildAgent builds the agent's program.
func buildAgent(t *testing.T) string {
	t.Helper()
	agent := filepath.Join(t.TempDir(), "mooring-agent")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", agent, "../../cmd/mooring-agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return agent
}

func TestDeaths(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: builds the agent")
	}
	needsTracker(t)
	found, err := deaths(t.Context(), buildAgent(t),
		deathAmounts{residents: 2, rounds: 1, inRound: 2, qemu: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []string{
		cell(standIn, toSent), cell(standIn, toReceived), cell(standIn, toConfirmed),
		cell(standIn, overhead),
		cell(minimalWatcher, toSent), cell(minimalWatcher, toReceived),
		cell(pollingWatcher, toReceived),
	} {
		if n := len(found[c]); n != 2 {
			t.Errorf("%s: %d measurements, want 2", c, n)
		}
	}
	for i, received := range found[cell(standIn, toReceived)] {
		if sent := found[cell(standIn, toSent)][i]; sent <= 0 || received <= sent {
			t.Errorf("SIGTERM is sent after %v s, and received after %v s", sent, received)
		}
	}
	if n := len(found[cell(standIn, shutdownTime)]); n == 0 {
		t.Error("no VM was ended directly")
	}
	mount, err := cgroup2()
	if err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(mount, fmt.Sprintf("mooring-bench-%d*", os.Getpid())))
	if err != nil || len(left) > 0 {
		t.Errorf("cgroups are left: %v, %v", left, err)
	}
}

func TestDeathOf(t *testing.T) {
	at := func(ms int) host.Boottime { return host.Boottime(time.Duration(ms) * time.Millisecond) }
	got := deathOf(at(100), at(101), at(102), at(110), at(113))
	want := death{
		sent: 1 * time.Millisecond, received: 2 * time.Millisecond, confirmed: 13 * time.Millisecond,
		overhead: 5 * time.Millisecond, // 2 ms before SIGTERM arrives, and 3 ms after the end
	}
	if got != want {
		t.Errorf("deathOf = %+v, want %+v", got, want)
	}
}

// deathSamples returns n deaths with Mooring and with the other kinds.
func deathSamples(n int, kinds ...string) samples {
	s := samples{}
	for range n {
		for _, step := range []string{toSent, toReceived} {
			s.add(cell(minimalWatcher, step), time.Millisecond)
		}
		s.add(cell(pollingWatcher, toReceived), time.Second)
		for _, kind := range kinds {
			for _, step := range []string{toSent, toConfirmed, shutdownTime, overhead} {
				s.add(cell(kind, step), 2*time.Millisecond)
			}
		}
		s.add(cell(standIn, toReceived), 3*time.Millisecond)
	}
	return s
}

func TestDeathRows(t *testing.T) {
	without, with := deathRows(deathSamples(10, standIn)),
		deathRows(deathSamples(10, standIn, realQEMU))
	isQEMU := func(r report.Row) bool { return strings.HasSuffix(r.Candidate, realQEMU) }
	if slices.ContainsFunc(without, isQEMU) || !slices.ContainsFunc(with, isQEMU) {
		t.Errorf("rows of QEMU: want them only if QEMU was measured")
	}
	for _, row := range with {
		if strings.HasPrefix(row.Candidate, pollingWatcher) &&
			(row.Ratio == nil || row.Ratio.Value != 1000 || len(row.Goals) > 0) {
			t.Errorf("%+v, want a ratio of 1000 to the minimal watcher, and no goal", row)
		}
		for _, g := range row.Goals {
			want := report.Missed
			if row.Measurement == overhead {
				want = report.Met
			}
			if v, err := row.Verdict(g); err != nil || v != want {
				t.Errorf("%s, %s: %q, %v, want %q", row.Measurement, row.Candidate, v, err, want)
			}
		}
	}
}

// waitFor must end with its context even if no time arrives.
func TestWaitForEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := waitFor(ctx, make(chan host.Boottime)); err == nil {
		t.Error("waitFor returned no error after its context ended")
	}
}

func TestRuns(t *testing.T) {
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := cmd.Process.Pid
	// a zombie until the test waits for it
	err := await(t.Context(), func() (bool, error) { return !isRunning(pid), nil })
	if err != nil {
		t.Errorf("isRunning reports a zombie as running: %v", err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if isRunning(pid) || !isRunning(os.Getpid()) {
		t.Error("want this process to run, and the other one to have ended")
	}
}
