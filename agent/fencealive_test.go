package agent

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/lifecycle/host"
)

// TestFenceUp lets a fence check once, and ages its file as a dead fence would leave it.
func TestFenceUp(t *testing.T) {
	config := testConfig(t)
	wantFence(t, config.Root, false, false)
	p, err := policyInForce(&config)
	if err != nil {
		t.Fatal(err)
	}
	f := newFence(config, p, textLogger(&syncBuffer{}), host.LinuxClock{})
	f.act = func(context.Context) error { return nil }
	f.check(t.Context())
	wantFence(t, config.Root, true, true)
	old := time.Now().Add(-2 * fenceAwayAfter)
	if err := os.Chtimes(filepath.Join(config.Root, fenceAliveFile), old, old); err != nil {
		t.Fatal(err)
	}
	wantFence(t, config.Root, false, true)
	f.check(t.Context())
	wantFence(t, config.Root, true, true)
}

func wantFence(t *testing.T, root string, up, known bool) {
	t.Helper()
	if gotUp, gotKnown := fenceUp(root); gotUp != up || gotKnown != known {
		t.Errorf("fence up %t, known %t, want %t, %t", gotUp, gotKnown, up, known)
	}
}
