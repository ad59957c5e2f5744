package main

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// needsLaunchers skips t if the test cannot make cgroups or the agent's tmpfs.
func needsLaunchers(t *testing.T) {
	t.Helper()
	mount, err := cgroup2()
	if err == nil {
		err = unix.Access(mount, unix.W_OK)
	}
	if err != nil || os.Geteuid() != 0 {
		t.Skipf("needs root and a writable cgroup v2 hierarchy: %v", err)
	}
}

func TestHold(t *testing.T) {
	needsLaunchers(t)
	h, err := startLaunchers("", 3, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range h.listed {
		var limit unix.Rlimit
		if err := unix.Prlimit(int(m.ctr.Pid), unix.RLIMIT_MEMLOCK, nil, &limit); err != nil ||
			limit.Cur != residentMemlock {
			t.Errorf("launcher %s has the memory lock %d, %v, want %d", m.pod.Name, limit.Cur, err,
				residentMemlock)
		}
	}
	if scopes, err := filepath.Glob(filepath.Join(h.cgroup, "*.scope")); err != nil ||
		len(scopes) != 3 {
		t.Errorf("the cgroups are %v, %v, want 3", scopes, err)
	}
	if n := len(h.vms); n != 3 {
		t.Fatalf("%d VM processes, want one for each launcher", n)
	}
	if err := h.vms[0].Process.Signal(unix.SIGTERM); err != nil { // as an agent does
		t.Fatal(err)
	}
	if err := h.close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(h.cgroup); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the cgroup is left: %v", err)
	}
}

func TestResident(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: builds the agent")
	}
	needsTracker(t)
	found, err := resident(t.Context(), buildAgent(t), 3, true, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if found.after.rss < 1<<20 || found.ready <= 0 {
		t.Errorf("found %+v, want memory and a time", found)
	}
}

// The memory of an agent beside launchers is compared with its memory beside none.
func TestGrowth(t *testing.T) {
	g := growth{launchers: 4, none: usage{rss: 20 << 20, anonymous: 8 << 20},
		with: usage{rss: 30 << 20, anonymous: 9 << 20}}
	rows := growthRows(launchersAlone, g)
	if g.ratio() != 1.5 || g.each() != 256<<10 || rows[0].Value != 1.5 ||
		rows[1].Value != 256<<10 {
		t.Errorf("ratio %v, %v bytes for each launcher, rows %+v, want 1.5 and 256 KiB", g.ratio(),
			g.each(), rows)
	}
}

func TestAnAgentThatEndsIsNoticed(t *testing.T) {
	needsLaunchers(t)
	if _, err := resident(t.Context(), "/bin/false", 1, false, 0, 0); err == nil {
		t.Error("a program that is no agent was measured")
	}
}
