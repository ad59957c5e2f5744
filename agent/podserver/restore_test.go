package podserver_test

import (
	"testing"

	"github.com/mooring-vm/mooring/agent/podserver"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/shim/agent"
)

// restart empties the registry like a restart of the agent. Only the store remains.
func (r *rig) restart(t *testing.T, root string) {
	t.Helper()
	for uid := range r.vms {
		r.registry.Update("ID-"+uid, func(l *registry.Launcher) { l.VMs, l.Live = nil, nil })
	}
	r.Store = r.open(t, root)
	r.RestoreRequirements()
}

func (r *rig) open(t *testing.T, root string) podserver.Store {
	t.Helper()
	store, err := podserver.OpenFileStore(root)
	must(t, err)
	t.Cleanup(func() { must(t, store.Close()) })
	return store
}

func (r *rig) requirement(uid string) uint64 {
	l, _ := r.registry.Find("ID-" + uid)
	return l.MemoryRequirement()
}

// A restarted agent applies a stored memory requirement as soon as it knows the VM process.
func TestRequirementOutlivesTheAgent(t *testing.T) {
	r, root := newRig(t), t.TempDir()
	r.Store = r.open(t, root)
	a, b := agent.New(r.serve(t, "a")), agent.New(r.serve(t, "b"))
	must(t, a.RequireMemory(t.Context(), 3*gi))
	must(t, b.RequireMemory(t.Context(), 2*gi))
	must(t, b.RequireMemory(t.Context(), 0))

	r.restart(t, root)
	if got := r.requirement("a"); got != 0 {
		t.Errorf("requirement %d of a launcher without a VM process, want none", got)
	}
	r.showVMs("a", r.vms["a"])
	r.showVMs("b", r.vms["b"])
	if r.requirement("a") != 3*gi || r.requirement("b") != 0 {
		t.Errorf("requirements %d and %d, want 3Gi of one", r.requirement("a"), r.requirement("b"))
	}

	must(t, a.RequireMemory(t.Context(), gi))
	r.restart(t, root)
	r.startVM("a", 300)
	if got := r.requirement("a"); got != 0 {
		t.Errorf("requirement %d of another process, want none", got)
	}

	r.remove("a")
	r.Forget("a")
	if left, unknown := r.open(t, root).Requirements(); len(left)+len(unknown) != 0 {
		t.Errorf("records %v and %v of a pod that is gone", left, unknown)
	}
}

// A memory requirement is not a desired size.
func TestRequirementIsNoSize(t *testing.T) {
	r := newRig(t)
	before, err := r.Pod("a").Desired()
	must(t, err)
	must(t, agent.New(r.serve(t, "a")).RequireMemory(t.Context(), 3*gi))
	if after, err := r.Pod("a").Desired(); err != nil || after != before {
		t.Errorf("desired %+v, %v, want %+v as before", after, err, before)
	}
}
