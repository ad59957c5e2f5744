//go:build cgo && libvirt_dlopen

package command

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/agent/podserver"
	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/lifecycletest"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

const (
	gi     = uint64(1) << 30
	booted = 256 << 20

	uid    = "a"
	cgroup = "/kubepods.slice/poda.slice/cri-ID-a.scope"
)

// node has one pod and the real agent behind the pod's socket. Tests can kill this agent. The
// kernel is a fake.
type node struct {
	socket            string
	kernel            *lifecycletest.Kernel
	vm                host.Process
	clock             host.Clock
	store             *podserver.FileStore
	migrationsBlocked atomic.Bool

	beforeAnswer atomic.Pointer[func(question string)] // called before each answer

	mu       sync.Mutex
	current  *podserver.Node
	registry *registry.Registry
	listener *cuttableListener
	served   sync.WaitGroup
}

func newNode(t *testing.T, socket string) *node {
	t.Helper()
	store, err := podserver.OpenFileStore(t.TempDir())
	must(t, err)
	n := &node{
		socket: socket,
		kernel: lifecycletest.NewKernel(),
		clock:  lifecycletest.NewClock(),
		store:  store,
	}
	const limit = host.Limit(gi)
	n.kernel.Start(100, cgroup, host.Rlimit{Soft: limit, Hard: limit})
	n.vm = n.kernel.Start(101, cgroup, host.Rlimit{Soft: limit, Hard: limit})
	n.kernel.Write("/kubepods.slice", "memory.max", "max\n")
	n.kernel.Write("/kubepods.slice/poda.slice", "memory.max", "max\n")
	n.kernel.Write(cgroup, "memory.max", "3221225472\n")
	must(t, n.startAgent())
	t.Cleanup(func() {
		n.killAgent()
		n.served.Wait()
		must(t, store.Close())
	})
	return n
}

// startAgent starts an agent. It knows only facts from the kernel, the runtime and the disk.
func (n *node) startAgent() error {
	plain, err := net.Listen("unix", n.socket)
	if err != nil {
		return err
	}
	launchers := registry.New()
	launchers.Put(registry.Launcher{
		Launcher: agentapi.Launcher{
			Pod:       agentapi.PodRef{Namespace: "vms", Name: "pod-a", UID: uid},
			Container: agentapi.ContainerRef{Name: "compute", ID: "ID-a", PID: 100},
			State:     agentapi.StateRunning,
			Rule:      "tenants",
			VMs: []agentapi.VM{
				{PID: n.vm.PID, StartTime: n.vm.Ticks(), State: agentapi.VMRunning},
			},
		},
		Limits: registry.ContainerLimits{Memory: int64(3 * gi), CPU: 8000},
	})
	current := &podserver.Node{
		Registry: launchers,
		Kernel:   n.kernel,
		Recorder: &lifecycletest.Recorder{},
		Logger:   discard,
		Cgroup:   func(registry.Launcher) (string, error) { return cgroup, nil },
		Grant: func(string, host.Process, host.Limit) error {
			return errors.New("unexpected call of Grant")
		},
		Policy: policy.NewCurrent(&policy.Policy{Mode: policy.Enforce}),
		Ready:  func() bool { return true },
		Clock:  n.clock,
		Store:  n.store,
	}
	listener := &cuttableListener{Listener: plain}
	n.mu.Lock()
	n.current, n.registry, n.listener = current, launchers, listener
	n.mu.Unlock()
	n.migrationsBlocked.Store(false)
	n.served.Go(func() {
		// It fails when killAgent closes the listener.
		_ = podserver.Serve(context.Background(), listener, hookedPod{current.Pod(uid), n}, discard)
	})
	return nil
}

// killAgent cuts all connections, like the death of the agent.
func (n *node) killAgent() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listener.cut()
}

// requestSize requests another size, as mooring resize does.
func (n *node) requestSize(t testing.TB, size api.Size) (generation uint64) {
	t.Helper()
	n.mu.Lock()
	current := n.current
	n.mu.Unlock()
	pods, err := current.RequestSize("vms", "pod-a", size, false)
	must(t, err)
	if len(pods) != 1 {
		t.Fatalf("pods %+v, want one", pods)
	}
	return pods[0].Generation
}

func (n *node) launcher() registry.Launcher {
	n.mu.Lock()
	defer n.mu.Unlock()
	l, _ := n.registry.Find("ID-a")
	return l
}

// lastReport returns the pod's last report; false: there is none.
func (n *node) lastReport() (podapi.Report, bool) {
	if r := n.launcher().Resize; r != nil {
		return r.Report, true
	}
	return podapi.Report{}, false
}

// memoryRequirement returns the agent's lower bound for limits.
func (n *node) memoryRequirement() uint64 {
	l := n.launcher()
	return l.MemoryRequirement()
}

// hookedPod calls node.beforeAnswer before each answer.
type hookedPod struct {
	podserver.Pod
	node *node
}

func (o hookedPod) runHook(question string) {
	if f := o.node.beforeAnswer.Load(); f != nil {
		(*f)(question)
	}
}

func (o hookedPod) Observed() (podapi.Observed, error) {
	o.runHook("seen")
	return o.Pod.Observed()
}

func (o hookedPod) RequireMemory(n podapi.MemoryRequirement) error {
	o.runHook("need")
	return o.Pod.RequireMemory(n)
}

func (o hookedPod) Hold(d time.Duration, added podapi.Amount) error {
	o.runHook("hold")
	o.node.migrationsBlocked.Store(d > 0)
	return o.Pod.Hold(d, added)
}

func (o hookedPod) Desired() (podapi.Desired, error) {
	o.runHook("wanted")
	return o.Pod.Desired()
}

func (o hookedPod) Report(r podapi.Report) error {
	o.runHook("report")
	return o.Pod.Report(r)
}
