package main

import (
	"context"
	_ "embed"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/mooring-vm/mooring/agent/admin"
	"github.com/mooring-vm/mooring/agent/asynclog"
	"github.com/mooring-vm/mooring/agent/metrics"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/lifecycle/guard"
	"github.com/mooring-vm/mooring/lifecycle/lifecycletest"
	"github.com/mooring-vm/mooring/lifecycle/poddir"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/plugin"
)

//go:embed policy.yaml
var nodePolicy []byte

// mooringParts are the parts of the agent used by its answers.
type mooringParts struct {
	*plugin.Plugin
	guard    *guard.Guard
	dirs     *poddir.Dirs
	counts   *metrics.Metrics
	logger   *slog.Logger
	closeLog func()
}

// newMooring builds the plugin like package agent, with log, metrics, events and pod directories.
// Only the kernel interface is a fake. The measured containers have no process, so the guard never
// uses it, and cgroup v2 is not required.
func newMooring(root string, log *os.File) (*mooringParts, error) {
	rules, err := policy.Parse(nodePolicy)
	if err != nil {
		return nil, err
	}
	dirs, err := poddir.Open(root)
	if err != nil {
		return nil, err
	}
	queue := asynclog.New(log, 1<<20, func(uint64) {})
	m := &mooringParts{
		dirs: dirs, counts: metrics.New(metrics.Build{}),
		logger:   slog.New(slog.NewTextHandler(queue, nil)),
		closeLog: func() { queue.Close(time.Second) },
	}
	record := recorders{m.counts, admin.NewRing(1000, 1000)}
	registry := registry.New()
	m.guard = guard.New(guard.Config{
		Registry: registry, Kernel: lifecycletest.NewKernel(), Recorder: record, Observer: m.counts,
		Logger: m.logger, Repair: func() bool { return true }, Interval: 30 * time.Second,
	})
	m.Plugin, err = plugin.New(plugin.Config{
		Policy: policy.NewCurrent(rules), Registry: registry, Guard: m.guard, PodDirs: dirs, Recorder: record,
		Logger:   m.logger,
		Observer: m.counts, Controllers: []string{"cpu", "cpuset", "io", "memory", "pids"},
		NodeMemory: 1 << 43,
	})
	return m, err
}

// run executes the plugin's background work until ctx ends.
func (m *mooringParts) run(ctx context.Context) {
	var workers sync.WaitGroup
	workers.Go(func() { m.guard.Run(ctx) })
	workers.Go(func() { m.Plugin.Run(ctx) })
	workers.Wait()
}

func (m *mooringParts) close() error {
	m.closeLog()
	return m.dirs.Close()
}

// serveMooring connects Mooring like the agent.
func serveMooring(ctx context.Context, o pluginOptions, connect <-chan struct{}) error {
	m, err := newMooring(o.root, os.Stderr)
	if err != nil {
		return err
	}
	connection, err := plugin.NewConnection(plugin.ConnectionConfig{
		Socket: o.socket, Name: "mooring", Index: "90", Handlers: m.Plugin, Logger: m.logger,
		Observer: m.counts,
	})
	if err != nil {
		return err
	}
	var workers sync.WaitGroup
	workers.Go(func() { m.run(ctx) })
	select {
	case <-ctx.Done():
	case <-connect:
		connection.Run(ctx)
	}
	workers.Wait()
	return m.close()
}

// recorders passes events on to each recorder.
type recorders []registry.Recorder

// Record implements [registry.Recorder].
func (r recorders) Record(event agentapi.Event) {
	for _, each := range r {
		each.Record(event)
	}
}
