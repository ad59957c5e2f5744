package bpf

import (
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// BenchmarkProcess runs a short program repeatedly and reports the kernel's cost of each tracker
// program: ns per call.
func BenchmarkProcess(b *testing.B) {
	cases := []struct {
		name      string
		inside    bool // in a registered cgroup
		unscanned bool // a cgroup was registered after the last Resync
		read      bool
		program   string
	}{
		{name: "untracked"},
		{name: "untracked and unscanned", unscanned: true},
		{name: "tracked", inside: true},
		{name: "tracked and unscanned", inside: true, unscanned: true},
		{name: "tracked and read", inside: true, read: true},
		{name: "emulator and read", inside: true, read: true, program: emulatorName},
	}
	for _, c := range cases {
		b.Run(c.name, func(b *testing.B) {
			tracker := open(b, Options{readInterval: time.Second})
			group := newCgroup(b)
			register(b, tracker, group)
			if !c.unscanned {
				resync(b, tracker)
			}
			var in *cgroup
			if c.inside {
				in = &group
			}
			if c.read {
				record(b, tracker)
			}
			name := c.program
			if name == "" {
				name = "program"
			}
			measure(b, tracker, in, program(b, name))
		})
	}
}

func measure(b *testing.B, tracker *Tracker, in *cgroup, path string) {
	b.Helper()
	counting, err := ebpf.EnableStats(unix.BPF_STATS_RUN_TIME)
	if err != nil {
		skipOrFail(b, "the kernel does not count the time of programs: %v", err)
	}
	b.Cleanup(func() { _ = counting.Close() })
	costs := map[string][]float64{}
	before, n := figures(b, tracker), 0
	for b.Loop() {
		start(b, in, exec.Command(path, "0")).wait()
		if n++; n%50 == 0 {
			before = addCosts(b, tracker, before, costs)
		}
	}
	addCosts(b, tracker, before, costs)
	for name, each := range costs {
		slices.Sort(each)
		b.ReportMetric(each[len(each)/2], "ns/"+name)
	}
}

// addCosts adds each program's mean cost since before. The benchmark reports the median of these
// means, because other load on the machine moves it less.
func addCosts(b *testing.B, tracker *Tracker, before Stats, costs map[string][]float64) Stats {
	b.Helper()
	now := figures(b, tracker)
	for i, p := range now.Programs {
		runs := p.Runs - before.Programs[i].Runs
		if runs > 0 {
			took := p.Runtime - before.Programs[i].Runtime
			costs[p.Name] = append(costs[p.Name], float64(took.Nanoseconds())/float64(runs))
		}
	}
	return now
}
