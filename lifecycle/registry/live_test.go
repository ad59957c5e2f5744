package registry_test

import (
	"errors"
	"testing"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

func TestVM(t *testing.T) {
	running := func(pid int) agentapi.VM {
		return agentapi.VM{PID: pid, StartTime: 7, State: agentapi.VMRunning}
	}
	var l registry.Launcher
	for _, vms := range [][]agentapi.VM{nil, {running(1), running(2)},
		{{PID: 1, State: agentapi.VMKilling}}} {
		l.VMs = vms
		if p, err := l.VM(); !errors.Is(err, registry.ErrNoVM) {
			t.Errorf("VM of %v: %v, %v, want ErrNoVM", vms, p, err)
		}
	}
	l.VMs = []agentapi.VM{running(3)}
	if p, err := l.VM(); p != (host.ProcessAt(3, 7)) || err != nil {
		t.Errorf("%v, %v", p, err)
	}
}

// Requirements from the store apply once, to the process that reported them, whether its launcher
// is already known or comes later.
func TestStoredMemoryRequirements(t *testing.T) {
	launcher := func(id string, pid int) registry.Launcher {
		l := registry.Launcher{}
		l.Pod.UID, l.Container.ID, l.State = id, id, agentapi.StateRunning
		l.VMs = []agentapi.VM{{PID: pid, StartTime: 1}}
		return l
	}
	r := registry.New()
	r.Put(launcher("before", 1))
	r.RestoreRequirements(map[host.Process]uint64{host.ProcessAt(1, 1): 10,
		host.ProcessAt(2, 1): 20, host.ProcessAt(3, 2): 30}, []string{"unknown"})
	r.Put(launcher("after", 2))
	r.Put(launcher("another", 3))
	r.Put(launcher("unknown", 4))
	for id, want := range map[string]uint64{"before": 10, "after": 20, "another": 0,
		"unknown": registry.UnknownRequirement} {
		if l, _ := r.Find(id); l.MemoryRequirement() != want {
			t.Errorf("memory requirement of %s = %d, want %d", id, l.MemoryRequirement(), want)
		}
	}
	r.Update("after", func(l *registry.Launcher) {
		l.SetMemoryRequirement(host.ProcessAt(2, 1), 0)
	})
	if l, _ := r.Find("after"); l.MemoryRequirement() != 0 {
		t.Errorf("memory requirement = %d after a report of 0", l.MemoryRequirement())
	}
}
