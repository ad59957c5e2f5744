package main

import (
	"fmt"
	"time"

	"github.com/prometheus/procfs"
)

// usage is what a process has used so far, and what it holds.
type usage struct {
	at       time.Time
	cpu      float64 // seconds, of the process and of the kernel for it
	switches uint64  // context switches: the times that it was woken, or put aside
	rss, pss float64 // bytes
	own      float64 // bytes that no file holds: of rss, what the kernel cannot drop
}

// usageOf looks at a process.
func usageOf(pid int) (usage, error) {
	u, err := readUsage(pid)
	if err != nil {
		return usage{}, fmt.Errorf("looking at process %d: %w", pid, err)
	}
	return u, nil
}

func readUsage(pid int) (usage, error) {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return usage{}, err
	}
	stat, err := p.Stat()
	if err != nil {
		return usage{}, err
	}
	memory, err := p.ProcSMapsRollup()
	if err != nil {
		return usage{}, err
	}
	switches, err := switchesOf(pid)
	return usage{
		at: time.Now(), cpu: stat.CPUTime(), switches: switches,
		rss: float64(memory.Rss), pss: float64(memory.Pss), own: float64(memory.Anonymous),
	}, err
}

// switchesOf sums over the threads: the kernel counts for each.
func switchesOf(pid int) (sum uint64, err error) {
	threads, err := procfs.AllThreads(pid)
	if err != nil {
		return 0, err
	}
	for _, t := range threads {
		status, err := t.NewStatus()
		if err != nil {
			return 0, err
		}
		sum += status.VoluntaryCtxtSwitches + status.NonVoluntaryCtxtSwitches
	}
	return sum, nil
}
