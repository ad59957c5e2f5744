package kubevirttest

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/hack/kubevirt"
	"github.com/mooring-vm/mooring/shim/hook"
)

// Launch returns a launcher with one hook sidecar. At the end of t the launcher reports the VM's
// end, and the sidecar must exit.
func Launch(t testing.TB, c hook.Config) *kubevirt.Launcher {
	t.Helper()
	hooks, err := os.MkdirTemp("", "hooks") // socket paths must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(hooks) })
	container := filepath.Join(hooks, "hook-sidecar-0") // KubeVirt's name for the first sidecar
	if err := os.Mkdir(container, 0o700); err != nil {
		t.Fatal(err)
	}
	c.Socket = filepath.Join(container, filepath.Base(hook.DefaultSocket))
	ctx, cancel := context.WithCancel(cleanUp(t))
	served := make(chan error, 1)
	go func() { served <- hook.Serve(ctx, c) }()
	l, err := kubevirt.StartLauncher(cleanUp(t), hooks, logger())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if c.Version == "v1alpha1" || c.Version == "v1alpha2" { // these versions report no end
			cancel()
		}
		select {
		case err := <-served:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Error("the sidecar does not end")
		}
		cancel()
	})
	return l
}

// Define returns the definition of a VM.
func Define(t testing.TB, l *kubevirt.Launcher, r kubevirt.Request) kubevirt.Definition {
	t.Helper()
	d, err := l.Define(r)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
