package agent

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

// usagePeriod is the time between two samples of the use of all VM processes: two files each.
const usagePeriod = 15 * time.Second

// usageSampler keeps the latest use of each VM process, so that answers need no I/O. It is safe for
// concurrent use.
type usageSampler struct {
	read    func(host.Process) (host.Usage, error)
	iommufd func(host.Process) (bool, error) // see [host.LinuxKernel.HasIOMMUFD]
	logger  *slog.Logger

	mu      sync.Mutex
	samples map[host.Process]usageSample
}

type usageSample struct {
	at   time.Time
	cpu  time.Duration
	used agentapi.Usage
}

// run samples the VM processes of launchers until ctx ends.
func (s *usageSampler) run(ctx context.Context, launchers func() []registry.Launcher) {
	ticker := time.NewTicker(usagePeriod)
	defer ticker.Stop()
	for ctx.Err() == nil {
		s.sample(launchers(), time.Now())
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
}

// sample replaces all samples, and so forgets ended processes.
func (s *usageSampler) sample(launchers []registry.Launcher, now time.Time) {
	next := map[host.Process]usageSample{}
	for i := range launchers {
		for _, vm := range launchers[i].VMs {
			p := processOf(vm)
			used, err := s.read(p)
			if err == nil {
				sample := s.after(p, used, now)
				sample.used.PinnedPer = s.pinnedPer(&launchers[i], vm, used)
				next[p] = sample
			} else if !errors.Is(err, host.ErrGone) {
				s.logger.Debug("cannot read the use of a VM process", slog.Any("error", err))
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.samples = next
}

// after returns the sample that follows the latest one of the process.
func (s *usageSampler) after(p host.Process, used host.Usage, now time.Time) usageSample {
	s.mu.Lock()
	earlier, ok := s.samples[p]
	s.mu.Unlock()
	sample := usageSample{at: now, cpu: used.CPU, used: agentapi.Usage{
		Memory: int64(used.Resident), Locked: int64(used.Locked), Pinned: int64(used.Pinned)}}
	if elapsed := now.Sub(earlier.at); ok && elapsed > 0 {
		millis := int64(1000 * float64(used.CPU-earlier.cpu) / float64(elapsed))
		sample.used.CPU = &millis
	}
	return sample
}

// fill adds the samples to launchers. It copies their lists of VM processes first.
func (s *usageSampler) fill(launchers []agentapi.Launcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range launchers {
		s.fillLauncher(&launchers[i])
	}
}

// fillLauncher adds the samples to one launcher. The caller holds mu.
func (s *usageSampler) fillLauncher(l *agentapi.Launcher) {
	l.VMs = slices.Clone(l.VMs)
	for j := range l.VMs {
		if sample, ok := s.samples[processOf(l.VMs[j])]; ok {
			used := sample.used
			l.VMs[j].Usage = &used
		}
	}
}

// fillOne adds the samples to one launcher.
func (s *usageSampler) fillOne(l *agentapi.Launcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fillLauncher(l)
}

func processOf(vm agentapi.VM) host.Process {
	return host.ProcessAt(vm.PID, vm.StartTime)
}
