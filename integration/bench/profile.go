package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/pprof/profile"
)

// part is a part of the plugin's work on a launcher, identified by a function. A sample belongs to
// the first part with a function in its stack.
type part struct{ name, function string }

const handlerFunction = "plugin.(*Plugin).CreateContainer"

func parts() []part {
	return []part{
		{"pod directory: a dozen system calls", "lifecycle/poddir.(*Dirs)"},
		{"registry: the node's memory-lock account, adding the launcher", "lifecycle/registry.(*Registry)"},
		{"decision: annotations, memory lock, policy", "decide.Container"},
		{"answer: rlimit, cgroup settings, mounts", "plugin.adjustment"},
		{"log line", "log/slog."},
		{"metrics", "agent/metrics."},
		{"other work of the handler", handlerFunction},
	}
}

// breakdown is the handler's work on a launcher, by CPU time.
type breakdown struct {
	took   []float64 // seconds for each launcher
	shares []float64 // of the parts in their order, with sum one
}

// profileHandler calls the plugin for launchers, without NRI, on a node with known launchers. It
// writes the raw profile to file, unless file is empty.
func profileHandler(ctx context.Context, rounds int, file string) (_ breakdown, err error) {
	dir, err := os.MkdirTemp(tmpfs(), "bench-pods")
	if err != nil {
		return breakdown{}, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return breakdown{}, err
	}
	defer null.Close()
	m, err := newMooring(dir, null)
	if err != nil {
		return breakdown{}, err
	}
	defer func() { err = errors.Join(err, m.close()) }()
	var raw bytes.Buffer
	took, err := m.handle(ctx, rounds, &raw)
	if err != nil {
		return breakdown{}, err
	}
	if file != "" {
		if err := os.WriteFile(file, raw.Bytes(), 0o644); err != nil {
			return breakdown{}, err
		}
	}
	p, err := profile.Parse(&raw)
	if err != nil {
		return breakdown{}, fmt.Errorf("reading the CPU profile: %w", err)
	}
	return breakdown{took, sharesOf(p)}, nil
}

// handle creates and removes launchers under the profiler.
func (m *mooringParts) handle(
	ctx context.Context, rounds int, raw *bytes.Buffer,
) (took []float64, err error) {
	background, stop := context.WithCancel(ctx)
	var workers sync.WaitGroup
	workers.Go(func() { m.run(background) })
	defer func() { stop(); workers.Wait() }()
	for i := range knownLaunchers {
		if _, err := m.handleOne(ctx, launcher(i)); err != nil {
			return nil, err
		}
	}
	if err := pprof.StartCPUProfile(raw); err != nil {
		return nil, err
	}
	defer pprof.StopCPUProfile()
	for i := range rounds {
		l := launcher(knownLaunchers + i)
		one, err := m.handleOne(ctx, l)
		if err != nil {
			return nil, err
		}
		took = append(took, one.Seconds())
		if err := errors.Join(m.StopPodSandbox(ctx, l.pod), m.RemovePodSandbox(ctx, l.pod)); err !=
			nil {
			return nil, err
		}
	}
	return took, nil
}

func (m *mooringParts) handleOne(ctx context.Context, l member) (time.Duration, error) {
	began := time.Now()
	_, _, err := m.CreateContainer(ctx, l.pod, l.ctr)
	return time.Since(began), err
}

// sharesOf divides the handler's samples among the parts. Without samples the shares are empty.
func sharesOf(p *profile.Profile) []float64 {
	shares, sum := make([]float64, len(parts())), 0.0
	for _, s := range p.Sample {
		stack := functions(s)
		if !slices.ContainsFunc(stack, func(f string) bool {
			return strings.Contains(f, handlerFunction)
		}) {
			continue
		}
		weight := float64(s.Value[len(s.Value)-1])
		sum += weight
		shares[partOf(stack)] += weight
	}
	for i := range shares {
		shares[i] /= max(sum, 1)
	}
	return shares
}

// partOf expects a stack of the handler. It belongs at least to the last part.
func partOf(stack []string) int {
	return slices.IndexFunc(parts(), func(p part) bool {
		return slices.ContainsFunc(stack, func(f string) bool {
			return strings.Contains(f, p.function)
		})
	})
}

func functions(s *profile.Sample) []string {
	var all []string
	for _, location := range s.Location {
		for _, line := range location.Line {
			all = append(all, line.Function.Name)
		}
	}
	return all
}
