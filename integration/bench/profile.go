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

// part is a part of what the plugin does about a launcher, found by a function of
// it. A sample belongs to the first part that any function of its stack is in.
type part struct{ name, function string }

const handlerFunction = "plugin.(*Plugin).CreateContainer"

func parts() []part {
	return []part{
		{"pod directory: a dozen system calls", "lifecycle.(*PodDirs)"},
		{"registry: the node's account, and entering the launcher", "lifecycle.(*Registry)"},
		{"decision: annotations, memory lock, policy", "decide.Container"},
		{"answer: rlimit, cgroup settings, mounts", "plugin.adjustment"},
		{"log line", "log/slog."},
		{"metrics", "agent/metrics."},
		{"the rest of the handler", handlerFunction},
	}
}

// breakdown is what the plugin's handler does for a launcher, by the CPU's time.
type breakdown struct {
	took   []float64 // seconds, each
	shares []float64 // of parts, in their order; they add up to one
}

// profileHandler asks the plugin about launchers, without NRI in between, on a node
// of known launchers. The raw profile goes to file, if there is a name.
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
func (m *mooringParts) handle(ctx context.Context, rounds int, raw *bytes.Buffer) (took []float64, err error) {
	background, stop := context.WithCancel(ctx)
	var workers sync.WaitGroup
	workers.Go(func() { m.run(background) })
	defer func() { stop(); workers.Wait() }()
	for i := range known {
		if _, err := m.handleOne(ctx, launcher(i)); err != nil {
			return nil, err
		}
	}
	if err := pprof.StartCPUProfile(raw); err != nil {
		return nil, err
	}
	defer pprof.StopCPUProfile()
	for i := range rounds {
		l := launcher(known + i)
		one, err := m.handleOne(ctx, l)
		if err != nil {
			return nil, err
		}
		took = append(took, one.Seconds())
		if err := errors.Join(m.StopPodSandbox(ctx, l.pod), m.RemovePodSandbox(ctx, l.pod)); err != nil {
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

// sharesOf divides the samples of the handler among the parts. Without samples
// there are no shares.
func sharesOf(p *profile.Profile) []float64 {
	shares, sum := make([]float64, len(parts())), 0.0
	for _, s := range p.Sample {
		stack := functions(s)
		if !slices.ContainsFunc(stack, func(f string) bool { return strings.Contains(f, handlerFunction) }) {
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

// partOf expects a stack of the handler, which belongs to the last part at least.
func partOf(stack []string) int {
	return slices.IndexFunc(parts(), func(p part) bool {
		return slices.ContainsFunc(stack, func(f string) bool { return strings.Contains(f, p.function) })
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
