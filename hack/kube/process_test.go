package kube

import (
	"os"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/hack/throwaway/cache"
)

// withoutPrograms is a control plane with a directory and no processes.
func withoutPrograms(t *testing.T) *ControlPlane {
	t.Helper()
	store, err := cache.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	temp, err := store.Temp(t.Context(), runName)
	if err != nil {
		t.Fatal(err)
	}
	c := &ControlPlane{temp: temp}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func start(t *testing.T, c *ControlPlane, script string) *Process {
	t.Helper()
	p, err := c.Start("program", "/bin/sh", "-c", script)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestProcessIsStopped(t *testing.T) {
	p := start(t, withoutPrograms(t), "exec sleep 600")
	for range 2 {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
	}
	<-p.Exited()
}

func TestControlPlaneStopsItsPrograms(t *testing.T) {
	c := withoutPrograms(t)
	p := start(t, c, "exec sleep 600")
	if err := c.Stop(); err != nil {
		t.Error(err)
	}
	<-p.Exited()
}

func TestStopReportsAnEarlierEnd(t *testing.T) {
	for _, script := range []string{"exit 3", "exit 0"} {
		p := start(t, withoutPrograms(t), script) // it ends before the control plane stops it
		<-p.Exited()
		want := "program had ended: exit status " + strings.TrimPrefix(script, "exit ")
		if err := p.Stop(); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %q", script, err, want)
		}
		if err := p.Stop(); err != nil {
			t.Errorf("%s: a second error: %v", script, err)
		}
	}
}

// TestStopShowsTheLog: Stop removes the log with the control plane, so the error has its end.
func TestStopShowsTheLog(t *testing.T) {
	p := start(t, withoutPrograms(t), "seq 20; echo error: lease lost >&2; exit 1")
	<-p.Exited()
	want := "program had ended: exit status 1\n17\n18\n19\n20\nerror: lease lost"
	if err := p.Stop(); err == nil || err.Error() != want {
		t.Errorf("got %v, want %q", err, want)
	}
}

func TestRestartedProgramContinuesItsLog(t *testing.T) {
	c := withoutPrograms(t)
	for _, line := range []string{"first", "second"} {
		<-start(t, c, "echo "+line).Exited()
	}
	if len(c.Logs()) != 1 {
		t.Fatalf("logs %v, want one", c.Logs())
	}
	content, err := os.ReadFile(c.Logs()[0])
	if err != nil {
		t.Fatal(err)
	}
	if string(content) != "first\nsecond\n" {
		t.Errorf("log %q", content)
	}
	for _, p := range c.started {
		_ = p.Stop() // the scripts have ended
	}
}
