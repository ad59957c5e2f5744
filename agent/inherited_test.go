package agent

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/lifecycle/host"
)

// TestInheritedMemlockWarnsOnce fails several reads in a row, as with a runtime in another pid
// namespace. Each cause is logged once.
func TestInheritedMemlockWarnsOnce(t *testing.T) {
	var log bytes.Buffer
	pid, err := 0, errors.New("no such process")
	i := &inheritedMemlock{
		logger: slog.New(slog.NewTextHandler(&log, nil)),
		pid:    func() int { return pid },
		read:   func(int) (host.Rlimit, error) { return host.Rlimit{Soft: 1, Hard: 2}, err },
	}
	warnings := func(want int) {
		t.Helper()
		for range 3 {
			if got := i.limit(); got != nil {
				t.Errorf("got %v despite an error", got)
			}
		}
		if got := strings.Count(log.String(), "level=WARN"); got != want {
			t.Errorf("got %d warnings, want %d:\n%s", got, want, log.String())
		}
	}
	warnings(0) // the runtime is not connected yet
	pid = 7
	warnings(1)
	pid = 8
	warnings(2)
	failure := err
	err = nil
	if got := i.limit(); got == nil || got.Hard != 2 {
		t.Errorf("got %v", got)
	}
	err = failure
	warnings(3)
}
