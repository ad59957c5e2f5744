package plugin_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	nri "github.com/containerd/nri/pkg/api"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide/decidetest"
	"github.com/mooring-vm/mooring/lifecycle/guard"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/lifecycletest"
	"github.com/mooring-vm/mooring/lifecycle/poddir"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/plugin"
)

const (
	mi = 1 << 20
	gi = 1 << 30
)

// node is a plugin with all that surrounds it.
type node struct {
	*plugin.Plugin
	registry *registry.Registry
	recorder *lifecycletest.Recorder
	kernel   *lifecycletest.Kernel
	dirs     *podDirs
	observer *observer
}

func newNode(t testing.TB, mode policy.Mode) *node {
	t.Helper()
	n := &node{
		registry: registry.New(),
		recorder: &lifecycletest.Recorder{},
		kernel:   lifecycletest.NewKernel(),
		dirs:     &podDirs{},
		observer: &observer{},
	}
	guard := guard.New(guard.Config{
		Registry: n.registry, Kernel: n.kernel, Recorder: n.recorder,
		Logger: slog.New(slog.DiscardHandler), Repair: func() bool { return true },
	})
	var err error
	n.Plugin, err = plugin.New(plugin.Config{
		Policy: policy.NewCurrent(decidetest.Policy(t, mode)), Registry: n.registry, Guard: guard, PodDirs: n.dirs,
		Recorder: n.recorder, Logger: slog.New(slog.DiscardHandler), Observer: n.observer,
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// launcher returns the registry's entry of container compute in the pod.
func (n *node) launcher(t *testing.T, pod *nri.PodSandbox) registry.Launcher {
	t.Helper()
	l, ok := n.registry.Get(registry.Key{PodUID: pod.GetUid(), Container: "compute"})
	if !ok {
		t.Fatalf("no launcher of pod %s in the registry", pod.GetUid())
	}
	return l
}

// newPod returns a launcher pod of namespace trusted that requests for something.
func newPod(uid string, requests map[string]string) *nri.PodSandbox {
	return &nri.PodSandbox{
		Id: "sandbox-" + uid, Name: "vm-" + uid, Uid: uid, Namespace: "trusted",
		Annotations: decidetest.Launcher(requests),
	}
}

// newContainer returns a container of a pod, without a memory limit.
func newContainer(pod *nri.PodSandbox, name string) *nri.Container {
	return &nri.Container{
		Id: "id-" + name + "-" + pod.GetUid(), PodSandboxId: pod.GetId(), Name: name,
		Linux: &nri.LinuxContainer{Resources: &nri.LinuxResources{}},
	}
}

// withMemory sets the memory limit of a container; 0: none.
func withMemory(ctr *nri.Container, bytes int64) *nri.Container {
	ctr.Linux.Resources.Memory = &nri.LinuxMemory{Limit: nri.Int64(bytes)}
	return ctr
}

// start makes a container run, with a process in a cgroup of its own.
func (n *node) start(ctr *nri.Container, pid int, l host.Rlimit) {
	ctr.Pid, ctr.State = uint32(pid), nri.ContainerState_CONTAINER_RUNNING
	n.kernel.Start(pid, cgroupOf(ctr), l)
}

func cgroupOf(ctr *nri.Container) string { return "/kubepods.slice/cri-" + ctr.GetId() + ".scope" }

// podDirs is a plugin.PodDirs that records its calls.
type podDirs struct {
	mu   sync.Mutex
	made []string
	fail error
}

func (d *podDirs) Create(uid string) (poddir.Dir, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fail != nil {
		return poddir.Dir{}, d.fail
	}
	d.made = append(d.made, uid)
	return poddir.Dir{Path: "/dirs/" + uid}, nil
}

func (d *podDirs) DiscardUnless(uid string, keep func(string) bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.made = slices.DeleteFunc(d.made, func(s string) bool { return s == uid && !keep(s) })
	return nil
}

func (d *podDirs) Retain(keep func(string) bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.made = slices.DeleteFunc(d.made, func(s string) bool { return !keep(s) })
	return nil
}

func (d *podDirs) EmptyTrash(context.Context) error { return nil }

func (d *podDirs) list() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.made)
}

// observer is a plugin.Observer that records its calls.
type observer struct {
	plugin.NopObserver
	mu        sync.Mutex
	requests  map[string]int
	outcomes  []plugin.Outcome
	abandoned int
}

func (o *observer) Request(method string, _ time.Duration, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.requests == nil {
		o.requests = map[string]int{}
	}
	o.requests[method+" failed="+strconv.FormatBool(err != nil)]++
}

func (o *observer) Decided(outcome plugin.Outcome) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.outcomes = append(o.outcomes, outcome)
}

func (o *observer) StubAbandoned() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.abandoned++
}

func (o *observer) decided() []plugin.Outcome {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.outcomes)
}

func (o *observer) stubsAbandoned() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.abandoned
}

var errFull = errors.New("no space left")

// checkState fails the test unless the launcher of the pod is in the state.
func (n *node) checkState(t *testing.T, pod *nri.PodSandbox, want agentapi.State) {
	t.Helper()
	if got := n.launcher(t, pod).State; got != want {
		t.Errorf("state = %s, want %s", got, want)
	}
}
