// Package plugintest makes the agent's plugin without a node, for tests of its decisions.
package plugintest

import (
	"context"
	"log/slog"

	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/lifecycle/lifecycletest"
	"github.com/mooring-vm/mooring/lifecycle/poddir"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/plugin"
)

// Config returns a configuration with an empty registry. Pod directories, guard and log have no
// effect. The service accounts of pods are unknown.
func Config(p *policy.Policy) plugin.Config {
	return plugin.Config{
		Policy: policy.NewCurrent(p), Registry: registry.New(), Guard: noGuard{}, PodDirs: dirs{},
		Recorder: &lifecycletest.Recorder{}, Logger: slog.New(slog.DiscardHandler),
	}
}

// Account is the service account of all pods.
type Account string

// ServiceAccount implements [plugin.ServiceAccounts].
func (a Account) ServiceAccount(string) (string, bool) { return string(a), true }

type dirs struct{}

func (dirs) Create(string) (poddir.Dir, error)             { return poddir.Dir{}, nil }
func (dirs) DiscardUnless(string, func(string) bool) error { return nil }
func (dirs) Retain(func(string) bool) error                { return nil }
func (dirs) EmptyTrash(context.Context) error              { return nil }

type noGuard struct{}

func (noGuard) Enqueue(string)              {}
func (noGuard) EnqueueAll()                 {}
func (noGuard) Gone(registry.Launcher) bool { return false }
