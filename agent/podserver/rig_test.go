package podserver_test

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/agent/podserver"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/lifecycle/guard"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/lifecycletest"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/plugin"
)

const (
	mi = uint64(1) << 20
	gi = uint64(1) << 30
)

// deadline bounds the wait for an event that takes no time.
const deadline = 30 * time.Second

const rules = `
apiVersion: mooring.dev/v1alpha1
kind: NodePolicy
mode: enforce
memlock: {nodeMax: 12Gi}
rules:
- name: tenants
  namespaces: [vms]
  memlock: {max: 8Gi}
`

// rig is a node with pods "a" and "b". Each has a launcher with container ID "ID-UID" and a memory
// lock of 2Gi, and a VM process.
type rig struct {
	*podserver.Node
	registry *registry.Registry
	kernel   *lifecycletest.Kernel
	recorder *lifecycletest.Recorder
	plugin   *plugin.Plugin
	guard    *guard.Guard
	ready    bool
	vms      map[string]host.Process

	mu   sync.Mutex
	sets []host.Process // one for each change of a memory lock
}

func newRig(t *testing.T) *rig { return newRigWith(t, rules) }

func newRigWith(t *testing.T, rules string) *rig {
	t.Helper()
	r := &rig{
		registry: registry.New(), kernel: lifecycletest.NewKernel(),
		recorder: &lifecycletest.Recorder{},
		ready:    true, vms: map[string]host.Process{},
	}
	r.kernel.BeforeSet = r.note
	p, err := policy.Parse([]byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	store, err := podserver.OpenFileStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	r.guard = guard.New(guard.Config{Registry: r.registry, Kernel: r.kernel, Recorder: r.recorder,
		Logger: log, Repair: func() bool { return true }})
	r.plugin, err = plugin.New(plugin.Config{
		Policy: policy.NewCurrent(p), Registry: r.registry, Guard: r.guard, PodDirs: noDirs{},
		Recorder: r.recorder, Logger: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Node = &podserver.Node{
		Registry: r.registry, Kernel: r.kernel, Recorder: r.recorder, Logger: log,
		Cgroup: r.guard.Cgroup, Grant: r.plugin.GrantLock,
		Policy: policy.NewCurrent(p), Ready: func() bool { return r.ready },
		Clock: lifecycletest.NewClock(), Store: store,
	}
	r.add("a", 100)
	r.add("b", 200)
	return r
}

type noDirs struct{ plugin.PodDirs }

func (r *rig) note(p host.Process) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sets = append(r.sets, p)
	return nil
}

// set returns the number of changes of memory locks.
func (r *rig) set() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.sets)
}

func equalLimits(l uint64) host.Rlimit {
	return host.Rlimit{Soft: host.Limit(l), Hard: host.Limit(l)}
}

func cgroupOf(uid string) string {
	return "/kubepods.slice/pod" + uid + ".slice/cri-ID-" + uid + ".scope"
}

// add adds a pod with a launcher (process pid) and its VM (process pid + 1).
func (r *rig) add(uid string, pid int) {
	r.kernel.Start(pid, cgroupOf(uid), equalLimits(2*gi))
	r.kernel.Write("/kubepods.slice", "memory.max", "17179869184\n")
	r.kernel.Write("/kubepods.slice", "memory.current", "10737418240\n")
	r.kernel.Write("/kubepods.slice", "memory.stat", "anon 1\ninactive_file 2147483648\n")
	r.kernel.Write("/kubepods.slice/pod"+uid+".slice", "memory.max", "max\n")
	r.kernel.Write(cgroupOf(uid), "memory.max", "4294967296\n")
	given, ceiling := host.Limit(2*gi), host.Limit(8*gi)
	r.registry.Put(registry.Launcher{
		Launcher: agentapi.Launcher{
			Pod:       agentapi.PodRef{Namespace: "vms", Name: "pod-" + uid, UID: uid},
			Container: agentapi.ContainerRef{Name: "compute", ID: "ID-" + uid, PID: pid},
			State:     agentapi.StateRunning, Rule: "tenants",
		},
		Demand: &given, Given: registry.Given{Memlock: &given}, Ceiling: &ceiling,
		Limits: registry.ContainerLimits{CPU: 2000},
	})
	r.startVM(uid, pid+1)
}

// remove removes the launcher of a pod, after the end of its VM.
func (r *rig) remove(uid string) {
	r.showVMs(uid)
	r.registry.RemoveContainer("ID-" + uid)
}

// startVM replaces the VM process of a pod.
func (r *rig) startVM(uid string, pid int) {
	r.vms[uid] = r.kernel.Start(pid, cgroupOf(uid), equalLimits(2*gi))
	r.showVMs(uid, r.vms[uid])
}

func (r *rig) showVMs(uid string, vms ...host.Process) {
	r.registry.Update("ID-"+uid, func(l *registry.Launcher) {
		l.VMs = nil
		for _, vm := range vms {
			l.VMs = append(l.VMs, agentapi.VM{PID: vm.PID, StartTime: vm.Ticks(),
				State: agentapi.VMRunning})
		}
	})
}

// lock returns the memory lock of a pod's VM process.
func (r *rig) lock(t *testing.T, uid string) uint64 {
	t.Helper()
	limit, err := r.kernel.Memlock(r.vms[uid])
	if err != nil {
		t.Fatal(err)
	}
	if limit.Soft != limit.Hard {
		t.Errorf("memory lock of pod %s is %+v, want equal soft and hard limits", uid, limit)
	}
	return uint64(limit.Soft)
}

// serve serves a pod on a real socket and returns its path.
func (r *rig) serve(t *testing.T, uid string) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	r.serveAt(t, uid, socket)
	return socket
}

func (r *rig) serveAt(t *testing.T, uid, socket string) (stop func()) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- podserver.Serve(ctx, l, r.Pod(uid), slog.New(slog.DiscardHandler)) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func newLease(until time.Time) *agentapi.Lease {
	return &agentapi.Lease{Reason: "migration to node-2", Until: until}
}
