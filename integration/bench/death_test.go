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
		cell(standIn, toSent), cell(standIn, toAsked), cell(standIn, toConfirmed),
		cell(standIn, beyondEnd),
		cell(least, toSent), cell(least, toAsked), cell(onceASecond, toAsked),
	} {
		if n := len(found[c]); n != 2 {
			t.Errorf("%s: %d measurements, want 2", c, n)
		}
	}
	for i, asked := range found[cell(standIn, toAsked)] {
		if sent := found[cell(standIn, toSent)][i]; sent <= 0 || asked <= sent {
			t.Errorf("SIGTERM is sent after %v s, and there after %v s", sent, asked)
		}
	}
	if n := len(found[cell(standIn, ownEnd)]); n == 0 {
		t.Error("no VM was asked to end by hand")
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
		sent: 1 * time.Millisecond, asked: 2 * time.Millisecond, confirmed: 13 * time.Millisecond,
		beyond: 5 * time.Millisecond, // two before the VM was asked, and three after it was gone
	}
	if got != want {
		t.Errorf("deathOf = %+v, want %+v", got, want)
	}
}

// deathSamples returns n deaths with Mooring and with the other kinds.
func deathSamples(n int, kinds ...string) samples {
	s := samples{}
	for range n {
		for _, what := range []string{toSent, toAsked} {
			s.add(cell(least, what), time.Millisecond)
		}
		s.add(cell(onceASecond, toAsked), time.Second)
		for _, kind := range kinds {
			for _, what := range []string{toSent, toConfirmed, ownEnd, beyondEnd} {
				s.add(cell(kind, what), 2*time.Millisecond)
			}
		}
		s.add(cell(standIn, toAsked), 3*time.Millisecond)
	}
	return s
}

func TestDeathRows(t *testing.T) {
	without, with := deathRows(deathSamples(10, standIn)),
		deathRows(deathSamples(10, standIn, realQEMU))
	isQEMU := func(r report.Row) bool { return strings.HasSuffix(r.Candidate, realQEMU) }
	if slices.ContainsFunc(without, isQEMU) || !slices.ContainsFunc(with, isQEMU) {
		t.Errorf("rows of QEMU: want them if and only if it was measured")
	}
	for _, row := range with {
		if strings.HasPrefix(row.Candidate, onceASecond) &&
			(row.Ratio == nil || row.Ratio.Value != 1000 || len(row.Goals) > 0) {
			t.Errorf("%+v, want a ratio of 1000 to the least that is possible, and no goal", row)
		}
		for _, g := range row.Goals {
			want := report.Missed
			if row.Measurement == beyondEnd {
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
		t.Error("waitFor waited for nothing, and said nothing")
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
		t.Errorf("a zombie is taken for a process that runs: %v", err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if isRunning(pid) || !isRunning(os.Getpid()) {
		t.Error("want this process to run, and that one not to")
	}
}
