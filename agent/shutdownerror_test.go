package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/mooring-vm/mooring/agent/libvirt"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// Only libvirt's answer and its record prove that a repeated request is useless.
func TestShutdownError(t *testing.T) {
	for name, c := range map[string]struct {
		err      error
		noDomain bool
	}{
		"no such domain":  {fmt.Errorf("libvirt: %w", libvirt.ErrNoDomain), true},
		"another process": {fmt.Errorf("libvirt: %w", libvirt.ErrOtherProcess), true},
		"no answer":       {fmt.Errorf("libvirt: %w", context.DeadlineExceeded), false},
		"refused":         {errors.New("libvirt: access denied"), false},
	} {
		err := shutdownError("one", c.err)
		if !errors.Is(err, c.err) || errors.Is(err, supervisor.ErrNoDomain) != c.noDomain {
			t.Errorf("%s: %v, want ErrNoDomain: %t", name, err, c.noDomain)
		}
	}
	if err := shutdownError("one", nil); err != nil {
		t.Errorf("after a success: %v", err)
	}
}

func TestShutdownWhileLibvirtIsAway(t *testing.T) {
	dir := t.TempDir()
	d := &domains{
		records: libvirt.Records{Dir: dir}, clock: host.LinuxClock{},
		daemon: libvirt.Daemon{Socket: filepath.Join(dir, "no-socket")},
		logger: slog.New(slog.DiscardHandler),
	}
	err := d.Shutdown(t.Context(), tie.Domain{
		Name: "one", UUID: "5530f9f3-5627-4dec-933e-74ce04c51e18", PID: 7,
	})
	if err == nil || errors.Is(err, supervisor.ErrNoDomain) {
		t.Errorf("%v, want another error than ErrNoDomain", err)
	}
}
