package registry

import (
	"testing"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
)

// The huge pages belong to the pod. A replaced container whose VM process remains and its successor
// share them.
func TestAccountHasHugePagesOfAPodOnce(t *testing.T) {
	r := New()
	launcher := func(id string, vms ...agentapi.VM) Launcher {
		return Launcher{Launcher: agentapi.Launcher{Pod: agentapi.PodRef{UID: "pod"},
			Container: agentapi.ContainerRef{Name: "compute", ID: id},
			State:     agentapi.StateRunning, VMs: vms},
			Demand: new(host.Limit(1)), MemoryLimit: 2, HugePages: 100}
	}
	key := Key{PodUID: "pod", Container: "compute"}
	r.Put(launcher("old", agentapi.VM{PID: 1, StartTime: 1}))
	if got := r.Account().Granted; got != 102 {
		t.Errorf("one container: %d, want 102", got)
	}
	r.Put(launcher("new"))
	if got := r.Account().Granted; got != 104 {
		t.Errorf("both containers: %d, want 104", got)
	}
	if got := r.AccountWithout(key, "new").Granted; got != 2 {
		t.Errorf("without the new one: %d, want 2: the new one has the huge pages", got)
	}
	r.RemoveContainer("new")
	if got := r.Account().Granted; got != 102 {
		t.Errorf("the old one alone: %d, want 102", got)
	}
}
