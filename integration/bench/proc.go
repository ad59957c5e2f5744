package main

import (
	"fmt"
	"time"

	"github.com/prometheus/procfs"
)

// usage is a process's resource usage so far, and its memory.
type usage struct {
	at        time.Time
	cpu       float64 // seconds, of the process and of the kernel for it
	switches  uint64  // voluntary and involuntary context switches
	rss, pss  float64 // bytes
	anonymous float64 // bytes of rss without a file, not reclaimable by the kernel
}

// usageOf reads the usage of a process.
func usageOf(pid int) (usage, error) {
	u, err := readUsage(pid)
	if err != nil {
		return usage{}, fmt.Errorf("reading the usage of process %d: %w", pid, err)
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
		rss: float64(memory.Rss), pss: float64(memory.Pss), anonymous: float64(memory.Anonymous),
	}, err
}

// switchesOf sums the threads' context switches, because the kernel counts them by thread.
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
