package main

import (
	"os"
	"runtime/debug"
	"strings"
	"testing"
)

// The Go runtime and the kernel confirm the settings.
func TestSaveMemory(t *testing.T) {
	t.Setenv("GOGC", "")
	saveMemory()
	if got := debug.SetGCPercent(gcPercent); got != gcPercent {
		t.Errorf("GC percent %d, want %d", got, gcPercent)
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(status), "THP_enabled:\t0\n") {
		t.Errorf("transparent huge pages are on: %s", status)
	}
}

// A user's GOGC takes precedence.
func TestSaveMemoryKeepsGOGC(t *testing.T) {
	before := debug.SetGCPercent(123)
	defer debug.SetGCPercent(before)
	t.Setenv("GOGC", "123")
	saveMemory()
	if got := debug.SetGCPercent(123); got != 123 {
		t.Errorf("GC percent %d, want that of GOGC", got)
	}
}
