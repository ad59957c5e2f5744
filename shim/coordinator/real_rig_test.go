//go:build cgo && libvirt_dlopen

package coordinator_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/coordinator"
	"github.com/mooring-vm/mooring/shim/headroom"
	"github.com/mooring-vm/mooring/shim/resize"
	"github.com/mooring-vm/mooring/shim/resize/journal"
	"github.com/mooring-vm/mooring/shim/resize/target"
	"github.com/mooring-vm/mooring/shim/shutdown"
	"github.com/mooring-vm/mooring/shim/virt"
	"github.com/mooring-vm/mooring/shim/virt/libvirt"
	"github.com/mooring-vm/mooring/shim/virt/libvirt/libvirttest"
)

// booted is the boot memory of the guests, in bytes.
const booted = 256 * mi

// pod is a launcher with a VM in QEMU, under the test's own libvirtd.
type pod struct {
	daemon     *libvirttest.Daemon
	connection virt.Connection
	virt.Domain
	agent    *agent
	policy   resize.Policy
	shutdown shutdown.Options
	stop     podStop

	requirement  atomic.Uint64 // memory requirement sent to the agent
	loweredLimit atomic.Uint64 // memory.max of the container set by another program; 0: none

	dir      string                 // of the journal
	hook     atomic.Pointer[func()] // called at the moments of atMoment
	shimDead atomic.Bool
	stopShim func()
}

// start boots a guest with headroom, and starts the shim.
func start(t testing.TB, o headroom.Options, options ...string) *pod {
	t.Helper()
	p := newPod(t)
	p.boot(t, o, options...)
	p.startShim(t)
	return p
}

// newPod returns a pod without a VM.
func newPod(t testing.TB) *pod {
	t.Helper()
	if testing.Short() {
		t.Skip("left out with -short: boots a guest")
	}
	daemon := libvirttest.Start(t, true)
	p := &pod{daemon: daemon, connection: connect(t, daemon.URI), dir: t.TempDir(), agent: &agent{},
		stopShim: func() {}}
	p.policy = resize.Policy{Shrink: true, Timeouts: resize.Timeouts{VCPUs: 15 * time.Second,
		Poll: 200 * time.Millisecond}}
	p.shutdown = shutdown.Options{Grace: 10 * time.Second, Resend: time.Second}
	p.agent.desired = podapi.Desired{Generation: 1, Launcher: "compute",
		Limits: podapi.Limits{Memory: 3 * gi, CPU: 8000}}
	t.Cleanup(func() { p.stopShim() })
	return p
}

func (p *pod) boot(t testing.TB, o headroom.Options, options ...string) {
	t.Helper()
	vm := p.daemon.LinuxVM(t, options...)
	vm.NoHeadroom, vm.Memory = true, int(booted/mi)
	o.Memory, o.CPUs = 1024, 8
	p.bootXML(t, prepareXML(t, vm.XML(t), o))
}

// prepareXML returns the domain XML with headroom.
func prepareXML(t testing.TB, xml string, o headroom.Options) string {
	t.Helper()
	result, err := headroom.Prepare([]byte(xml), o)
	if err != nil {
		t.Fatal(err)
	}
	return string(result.XML)
}

func (p *pod) bootXML(t testing.TB, xml string) {
	t.Helper()
	p.daemon.BootDefined(t, xml)
	var err error
	if p.Domain, err = p.connection.Domain(t.Context(), libvirttest.Name); err != nil {
		t.Fatal(err)
	}
	p.await(t, "the guest answers", func(s virt.State) bool {
		return s.VCPUs.Online == s.VCPUs.Boot
	})
}

func connect(t testing.TB, uri string) virt.Connection {
	t.Helper()
	if err := libvirt.StartEvents(); err != nil {
		libvirttest.Require(t, err.Error())
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := libvirt.Open(ctx, uri, libvirt.Options{MaxBackoff: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// startShim starts a coordinator with the pod's journal. It runs until stopShim.
func (p *pod) startShim(t testing.TB) {
	t.Helper()
	file, err := journal.Open(p.dir)
	if err != nil {
		t.Fatal(err)
	}
	p.shimDead.Store(false)
	c, err := coordinator.New(coordinator.Config{
		Connection: p.connection, Agent: agentWithCgroups{p.agent, p},
		Journal: hookedJournal{file, p}, Overhead: target.Fixed(uint64(gi)),
		AwaitStopRequest: p.stop.await,
		Policy:           p.policy,
		Shutdown:         p.shutdown,
		Log:              slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); c.Run(ctx) }()
	p.stopShim = sync.OnceFunc(func() { cancel(); <-done; _ = file.Close() })
}

// agentWithCgroups is an agent whose limits other programs may lower.
type agentWithCgroups struct {
	*agent
	pod *pod
}

func (c agentWithCgroups) Limits(ctx context.Context) (resize.Limits, error) {
	limits, err := c.agent.Limits(ctx)
	if lowered := c.pod.loweredLimit.Load(); lowered > 0 {
		limits.ContainerMax = lowered
	}
	return limits, err
}

func (c agentWithCgroups) RequireMemory(ctx context.Context, bytes uint64) error {
	c.pod.requirement.Store(bytes)
	return c.agent.RequireMemory(ctx, bytes)
}

// Hold is the first call of each step.
func (c agentWithCgroups) Hold(ctx context.Context, d time.Duration, growth uint64) error {
	err := c.agent.Hold(ctx, d, growth)
	if d > 0 {
		c.pod.runHook()
	}
	return err
}

// hookedJournal is a journal at which a test can interrupt the coordinator.
type hookedJournal struct {
	resize.Journal
	pod *pod
}

func (h hookedJournal) Store(r resize.Record) error {
	if h.pod.shimDead.Load() {
		return errors.New("the shim is dead")
	}
	err := h.Journal.Store(r)
	h.pod.runHook()
	return err
}

// runHook calls the hook, if any.
func (p *pod) runHook() {
	if moment := p.hook.Load(); moment != nil {
		(*moment)()
	}
}

// await waits until the VM satisfies the condition.
func (p *pod) await(t testing.TB, condition string, satisfied func(virt.State) bool) virt.State {
	t.Helper()
	var s virt.State
	var err error
	eventually(t, func() bool {
		s, err = p.State(t.Context())
		return err == nil && satisfied(s)
	}, func() { t.Fatalf("timeout before %s: %+v, %v", condition, s, err) })
	return s
}

// eventually polls the condition for 90 seconds, because emulated guests on busy machines are slow.
func eventually(t testing.TB, condition func() bool, onTimeout func()) {
	t.Helper()
	over := time.NewTimer(90 * time.Second)
	defer over.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !condition() {
		select {
		case <-tick.C:
		case <-over.C:
			onTimeout()
			return
		}
	}
}

// requestSize changes the desired size, and returns the final report.
func (p *pod) requestSize(t testing.TB, change func(*podapi.Desired)) podapi.Report {
	t.Helper()
	return p.outcome(t, p.agent.setDesired(change))
}

// outcome waits for the final report about a generation or a later one.
func (p *pod) outcome(t testing.TB, generation uint64) (last podapi.Report) {
	t.Helper()
	eventually(t, func() bool {
		reports := p.agent.allReports()
		if len(reports) == 0 {
			return false
		}
		last = reports[len(reports)-1]
		return last.State != podapi.StateResizing && last.Generation >= generation
	}, func() { t.Fatalf("generation %d has not ended: %+v", generation, last) })
	return last
}

// mustResize expects a resize to succeed, and returns the VM's state.
func (p *pod) mustResize(t testing.TB, change func(*podapi.Desired)) virt.State {
	t.Helper()
	if r := p.requestSize(t, change); r.State != podapi.StateDone {
		t.Fatalf("report %+v, want it %s", r, podapi.StateDone)
	}
	return p.read(t)
}

// read returns the VM's state.
func (p *pod) read(t testing.TB) virt.State {
	t.Helper()
	return p.await(t, "the VM is read", func(virt.State) bool { return true })
}
