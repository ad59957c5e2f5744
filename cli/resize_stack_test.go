package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/agent/admin"
	"github.com/mooring-vm/mooring/agent/podserver"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/lifecycletest"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	shimagent "github.com/mooring-vm/mooring/shim/agent"
	"github.com/mooring-vm/mooring/shim/coordinator"
	"github.com/mooring-vm/mooring/shim/resize"
	"github.com/mooring-vm/mooring/shim/resize/target"
	"github.com/mooring-vm/mooring/shim/virt"
	"github.com/mooring-vm/mooring/shim/virt/virttest"
)

const gi = 1 << 30

// resizeStack is a pod with a VM, its shim, and an agent for the shim and for the program under
// test. Only the kernel and libvirt are fakes.
type resizeStack struct {
	*virttest.Domain
	socket   string // of the agent, for the program
	registry *registry.Registry
	recorder *lifecycletest.Recorder
}

// startStack starts a stack with a memory limit of the container; 0: none. The VM has 1 vCPU and
// 1Gi.
func startStack(t *testing.T, limit int64) *resizeStack {
	t.Helper()
	return startStackOf(t, limit, 1, gi)
}

// startStackOf is startStack for a VM with these vCPUs and this memory at boot.
func startStackOf(t *testing.T, limit int64, vcpus int, memory uint64) *resizeStack {
	t.Helper()
	const cgroup = "/kubepods.slice/poda.slice/cri-ID-a.scope"
	w := &resizeStack{socket: filepath.Join(t.TempDir(), "agent.sock"), registry: registry.New(),
		recorder: &lifecycletest.Recorder{}}
	kernel, log := lifecycletest.NewKernel(), slog.New(slog.DiscardHandler)
	locked := host.Rlimit{Soft: gi, Hard: gi}
	kernel.Start(100, cgroup, locked)
	vm := kernel.Start(101, cgroup, locked)
	for _, path := range []string{"/kubepods.slice", "/kubepods.slice/poda.slice", cgroup} {
		kernel.Write(path, "memory.max", "max\n")
	}
	if limit > 0 {
		kernel.Write(cgroup, "memory.max", fmt.Sprintln(limit))
	}
	w.registry.Put(registry.Launcher{
		Launcher: agentapi.Launcher{
			Pod:       agentapi.PodRef{Namespace: "vms", Name: "vm-1", UID: "a"},
			Container: agentapi.ContainerRef{Name: "compute", ID: "ID-a", PID: 100},
			State:     agentapi.StateRunning,
			VMs: []agentapi.VM{{PID: vm.PID, StartTime: vm.Ticks(),
				State: agentapi.VMRunning}},
		},
		Limits: registry.ContainerLimits{Memory: limit, CPU: 8000},
	})
	store, err := podserver.OpenFileStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	node := &podserver.Node{
		Registry: w.registry, Kernel: kernel, Recorder: w.recorder, Logger: log, Store: store,
		Clock:  lifecycletest.NewClock(),
		Cgroup: func(registry.Launcher) (string, error) { return cgroup, nil },
		Grant: func(string, host.Process, host.Limit) error {
			return errors.New("no lock expected")
		},
		Policy: policy.NewCurrent(&policy.Policy{Mode: policy.Enforce}),
		Ready:  func() bool { return true },
	}
	server := &admin.Server{Launchers: w, Sizes: node,
		Node: func() agentapi.Node { return testNode }, Events: admin.NewRing(1, 1), Logger: log}
	pods := filepath.Join(t.TempDir(), "pod.sock")
	w.background(t, w.socket, server.Serve)
	w.background(t, pods, func(ctx context.Context, l net.Listener) error {
		return podserver.Serve(ctx, l, node.Pod("a"), log)
	})
	w.startShim(t, pods, vcpus, memory)
	return w
}

// Launchers implements [admin.Launchers].
func (w *resizeStack) Launchers() (all []agentapi.Launcher) {
	for _, l := range w.registry.List() {
		all = append(all, l.Launcher)
	}
	return all
}

// background serves on a socket until the test ends.
func (w *resizeStack) background(
	t *testing.T, socket string, serve func(context.Context, net.Listener) error,
) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// startShim starts a VM that can grow, and the shim that resizes it.
func (w *resizeStack) startShim(t *testing.T, socket string, vcpus int, memory uint64) {
	t.Helper()
	hypervisor := virttest.New(virt.State{
		UUID: "6b0d8f0e-6e2e-4c52-9d2c-0c1c6a1d2a3b", Name: "vm", Phase: virt.Running,
		VCPUs: virt.VCPUs{Plugged: vcpus, Boot: 1, Maximum: 8, Online: vcpus},
		Memory: virt.Memory{Boot: memory, Maximum: 8 * gi, Cells: 1, Devices: []virt.MemoryDevice{
			{Alias: "virtiomem0", Model: virt.VirtioMem, Size: 4 * gi, Block: 2 << 20},
		}},
		Bandwidth: virt.Bandwidth{Period: 100 * time.Millisecond, Quota: virt.Unlimited,
			Shares: 100, Supported: true},
	})
	w.Domain = hypervisor.First()
	c, err := coordinator.New(coordinator.Config{
		Connection: hypervisor, Agent: shimagent.New(socket), Journal: &memoryJournal{},
		Overhead: target.Fixed(gi), Policy: resize.Policy{Shrink: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() { defer close(done); c.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
}

// memoryJournal is a journal in memory.
type memoryJournal struct{ record *resize.Record }

func (p *memoryJournal) Load() (resize.Record, error) {
	if p.record == nil {
		return resize.Record{}, resize.ErrNoRecord
	}
	return *p.record, nil
}

func (p *memoryJournal) Store(r resize.Record) error {
	p.record = &r
	return nil
}

// resize runs the command. It replaces the times in the output.
func (w *resizeStack) resize(t *testing.T, args ...string) result {
	t.Helper()
	got := run(t.Context(), t, w.socket, append([]string{"resize", "vms/vm-1", "--timeout", "1m"},
		args...)...)
	got.out = timeless(got.out)
	return got
}

func timeless(text string) string {
	return regexp.MustCompile(`\d\d:\d\d:\d\d +\d+\.\d\ds`).ReplaceAllString(text, "TIME")
}

// eventReasons returns the reasons of all recorded Events.
func (w *resizeStack) eventReasons() (all []agentapi.Reason) {
	for _, e := range w.recorder.Events() {
		all = append(all, e.Reason)
	}
	return all
}

// A dry run changes nothing and has an answer each time, also after a resize to the same size.
func TestDryRunsAndResizes(t *testing.T) {
	w := startStack(t, 4*gi)
	const (
		step   = "change the number of vCPUs from 1 to 2\n"
		dryRun = "vms/vm-1: requested a plan for 2 vCPUs\n"
	)
	planned := result{ExitOK, dryRun + "plan  1  " + step, ""}
	for range 2 {
		if diff := cmp.Diff(planned, w.resize(t, "--vcpus", "2", "--dry-run"),
			cmp.AllowUnexported(result{})); diff != "" {
			t.Errorf("dry run (-want +got)\n%s", diff)
		}
	}
	if calls := w.Calls(); len(calls) != 0 {
		t.Errorf("calls of dry runs: %q, want none", calls)
	}
	want := result{ExitOK, "vms/vm-1: requested 2 vCPUs\nplan  1  " + step + "TIME  " + step +
		"done: 1Gi of memory, 2 vCPUs, CPU quota none, 100 CPU shares\n", ""}
	if diff := cmp.Diff(want, w.resize(t, "--vcpus", "2", "--wait"),
		cmp.AllowUnexported(result{})); diff != "" {
		t.Errorf("resize (-want +got)\n%s", diff)
	}
	before := w.eventReasons()
	if diff := cmp.Diff(result{ExitOK, dryRun + "nothing to do\n", ""},
		w.resize(t, "--vcpus", "2", "--dry-run"), cmp.AllowUnexported(result{})); diff != "" {
		t.Errorf("dry run afterwards (-want +got)\n%s", diff)
	}
	if got := w.resize(t, "--memory", "64Gi", "--dry-run"); got.code != ExitFailure ||
		!strings.Contains(got.errOut, "cannot resize its VM to this size (Refused): ") {
		t.Errorf("dry run of an impossible size: %+v", got)
	}
	if diff := cmp.Diff(before, w.eventReasons()); diff != "" {
		t.Errorf("Events of dry runs (-want +got)\n%s", diff)
	}
}

// Quota and shares are one step, and inspect shows the result.
func TestResizeOfBandwidth(t *testing.T) {
	w := startStack(t, 4*gi)
	const step = "change the CPU bandwidth of each vCPU from unlimited to 50ms per 100ms and the " +
		"CPU shares from 100 to 200\n"
	want := result{ExitOK, "vms/vm-1: requested CPU quota 50%, 200 CPU shares\nplan  1  " + step +
		"TIME  " + step +
		"done: 1Gi of memory, 1 vCPUs, CPU quota 50ms per 100ms for each vCPU, 200 CPU shares\n",
		""}
	if diff := cmp.Diff(want, w.resize(t, "--cpu-quota", "50%", "--cpu-shares", "200", "--wait"),
		cmp.AllowUnexported(result{})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if inspected := run(t.Context(), t, w.socket, "inspect", "vms/vm-1"); !strings.Contains(
		inspected.out, ", 200 CPU shares\n") {
		t.Errorf("inspect shows %s", inspected.out)
	}
}

func TestResizeWithoutLimit(t *testing.T) {
	got := startStack(t, 0).resize(t, "--memory", "2Gi", "--wait")
	if got.code != ExitOK || !strings.Contains(got.out, "done: 2Gi of memory") {
		t.Errorf("got %+v", got)
	}
}

// output collects the output of a running program.
type output struct {
	mu      sync.Mutex
	text    bytes.Buffer
	written chan struct{}
}

func (s *output) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case s.written <- struct{}{}:
	default:
	}
	return s.text.Write(p)
}

// await waits until the output contains a text.
func (s *output) await(t *testing.T, what string) {
	t.Helper()
	late := time.After(time.Minute)
	for {
		s.mu.Lock()
		text := timeless(s.text.String())
		s.mu.Unlock()
		if strings.Contains(text, what) {
			return
		}
		select {
		case <-s.written:
		case <-late:
			t.Fatalf("output: %s\nwant %q", text, what)
		}
	}
}

// --wait and inspect show the plan and the steps before the guest has finished its part.
func TestStepsAppearDuringTheResize(t *testing.T) {
	w := startStack(t, 4*gi)
	w.SetGuest(virttest.Guest{Late: true})
	s := &output{written: make(chan struct{}, 1)}
	program := testProgram(&bytes.Buffer{}, &bytes.Buffer{})
	program.Out = s
	done := make(chan int, 1)
	go func() {
		done <- program.Run(t.Context(), []string{"resize", "vms/vm-1", "--vcpus", "2", "--memory",
			"2Gi", "--wait", "--timeout", "1m", "--socket", w.socket})
	}()
	s.await(t, "plan  2  ")
	s.await(t, "TIME  wait until memory.max")
	inspected := run(t.Context(), t, w.socket, "inspect", "vms/vm-1")
	for _, want := range []string{"  Resizing\n", "  plan  3  ", "  TIME  wait until memory.max"} {
		if !strings.Contains(timeless(inspected.out), want) {
			t.Errorf("inspect shows %s\nwant %q", inspected.out, want)
		}
	}
	if len(done) > 0 {
		t.Error("the resize has ended before the answer of the guest")
	}
	w.SetGuest(virttest.Guest{})
	w.AnswerPending()
	if code := <-done; code != ExitOK {
		t.Errorf("exit code %d", code)
	}
	s.await(t, "done: 2Gi of memory, 2 vCPUs")
}
