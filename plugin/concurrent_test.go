package plugin_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"

	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide/decidetest"
	"github.com/mooring-vm/mooring/lifecycle/guard"
	"github.com/mooring-vm/mooring/lifecycle/lifecycletest"
	"github.com/mooring-vm/mooring/lifecycle/poddir"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/plugin"
)

// 64Gi are twelve times 5Gi.
func TestNodeCeilingHoldsUnderConcurrency(t *testing.T) {
	n := newNode(t, policy.Enforce)
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			pod := newPod(fmt.Sprintf("u%d", i), decidetest.VFIO())
			_, _ = n.create(pod, newContainer(pod, "compute"))
		})
	}
	all.Wait()
	given := 0
	for _, outcome := range n.observer.decided() {
		if outcome == plugin.OutcomeSet {
			given++
		}
	}
	if a := n.registry.Account(); given != 12 || a.Granted != 60*gi {
		t.Errorf("%d launchers were given %d bytes, want 12 and 60Gi", given, a.Granted)
	}
}

// BenchmarkCreateContainer measures a creation with a real pod directory and log, on a node with 250
// launchers.
func BenchmarkCreateContainer(b *testing.B) {
	p, err := policy.Parse([]byte(decidetest.NodePolicy))
	if err != nil {
		b.Fatal(err)
	}
	p.Mode, p.Memlock.NodeMax = policy.Enforce, 0
	dirs, err := poddir.Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer dirs.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	logger := slog.New(slog.NewTextHandler(null, nil))
	registry := registry.New()
	guard := guard.New(guard.Config{Registry: registry, Kernel: lifecycletest.NewKernel()})
	n, err := plugin.New(plugin.Config{
		Policy: policy.NewCurrent(p), Registry: registry, Guard: guard, PodDirs: dirs,
		Recorder: &lifecycletest.Recorder{}, Logger: logger,
	})
	if err != nil {
		b.Fatal(err)
	}
	create := func(pod, container string) {
		sandbox := newPod(pod, decidetest.VFIO())
		if _, _, err := n.CreateContainer(context.Background(), sandbox,
			newContainer(sandbox, container)); err != nil {
			b.Fatal(err)
		}
	}
	for i := range 250 {
		create(fmt.Sprintf("u%d", i), "compute")
	}
	for _, container := range []string{"compute", "sidecar"} {
		b.Run(container, func(b *testing.B) {
			for b.Loop() {
				create("u0", container)
			}
		})
	}
}
