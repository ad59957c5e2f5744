package agent

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-vm/mooring/agent/libvirt"
	"github.com/mooring-vm/mooring/api/vmfile"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

const endedUUID = "5530f9f3-5627-4dec-933e-74ce04c51e18"

// withoutDaemon returns domains whose libvirt is away.
func withoutDaemon(t *testing.T) (*domains, *setClock) {
	t.Helper()
	clock := &setClock{}
	daemon := libvirt.Daemon{Socket: filepath.Join(t.TempDir(), "none")}
	return &domains{daemon: daemon, clock: clock}, clock
}

// An end counts for a process that started before it. A domain starts again with the same UUID.
func TestEndOfAnEarlierProcess(t *testing.T) {
	d, clock := withoutDaemon(t)
	clock.now = 100
	d.setEnd(endedUUID, vmfile.Destroyed)
	for started, want := range map[host.Boottime]vmfile.Reason{99: "destroyed", 101: ""} {
		if got := d.endSince(endedUUID, started); got != want {
			t.Errorf("of a process started at %d: %q, want %q", started, got, want)
		}
	}
	if got := d.endSince("other", 0); got != "" {
		t.Errorf("of another domain: %q", got)
	}
}

func TestRememberedEndsAreBounded(t *testing.T) {
	d, _ := withoutDaemon(t)
	for n := range 3 * maxEnds {
		d.setEnd(fmt.Sprint(n), vmfile.Shutdown)
	}
	if n := len(d.ends); n > maxEnds || d.endSince(fmt.Sprint(3*maxEnds-1), 0) == "" {
		t.Errorf("%d remembered ends, want at most %d and the last one", n, maxEnds)
	}
}

// While libvirt is away, the agent waits. No answer is no reason.
func TestReasonOfAnEndComesLate(t *testing.T) {
	d, _ := withoutDaemon(t)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		domain := tie.Domain{Name: "vm-1", UUID: endedUUID}
		if reason, err := d.WhyEnded(ctx, domain, 0); reason != "" ||
			!errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("without libvirt: %q, %v", reason, err)
		}
		time.AfterFunc(time.Second, func() { d.setEnd(endedUUID, vmfile.Shutdown) })
		if reason, err := d.WhyEnded(t.Context(), domain, 0); reason != vmfile.Shutdown ||
			err != nil {
			t.Errorf("after an event: %q, %v", reason, err)
		}
	})
}
