package supervisor_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/lifecycletest"
	"github.com/mooring-vm/mooring/lifecycle/poddir"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// rig is a node with a supervisor, in a bubble of synctest.
type rig struct {
	*supervisor.Supervisor
	t        *testing.T
	config   supervisor.Config
	kernel   *lifecycletest.Kernel
	tracker  *lifecycletest.Tracker
	podDirs  *lifecycletest.PodDirs
	domains  *lifecycletest.Domains
	store    *lifecycletest.Store
	recorder *lifecycletest.Recorder
	stop     func()
	pid      int
}

// Terms of the tests.
const (
	gracePeriod = 30 * time.Second
	termPeriod  = 10 * time.Second
)

func inBubble(t *testing.T, change func(*supervisor.Config), test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, change)
		defer func() { r.stop() }()
		r.start()
		test(r)
	})
}

func newRig(t *testing.T, change func(*supervisor.Config)) *rig {
	r := &rig{
		t: t, kernel: lifecycletest.NewKernel(), podDirs: &lifecycletest.PodDirs{},
		domains: &lifecycletest.Domains{}, store: &lifecycletest.Store{},
		recorder: &lifecycletest.Recorder{}, pid: 100, stop: func() {},
	}
	r.tracker = lifecycletest.NewTracker(r.kernel)
	r.kernel.Clock = lifecycletest.NewClock()
	r.config = supervisor.Config{
		Registry: registry.New(), Tracker: r.tracker, Processes: r.kernel, Domains: r.domains,
		PodDirs: r.podDirs, Store: r.store, Recorder: r.recorder, Clock: r.kernel.Clock,
		Logger: slog.New(slog.DiscardHandler),
		Terms:  tie.Terms{Enforce: true, GracePeriod: gracePeriod, TermPeriod: termPeriod},
	}
	if change != nil {
		change(&r.config)
	}
	return r
}

// start runs a supervisor. A second call restores the ties of the first supervisor.
func (r *rig) start() {
	r.t.Helper()
	r.Supervisor = supervisor.New(r.config)
	if err := r.Restore(); err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.Run(ctx)
	}()
	r.stop = func() {
		cancel()
		<-done
		r.stop = func() {}
	}
	synctest.Wait()
}

// launcher is a running launcher with its first process and its cgroup.
type launcher struct {
	registry.Launcher
	process host.Process
	cgroup  string
}

// launch starts a launcher and notifies the supervisor as the plugin does.
func (r *rig) launch(name string, change func(*registry.Launcher)) launcher {
	r.t.Helper()
	r.podDirs.Touch("uid-"+name, func(*poddir.Touched) {})
	l := registry.Launcher{SandboxID: "sandbox-" + name}
	l.Pod = agentapi.PodRef{Namespace: "vms", Name: name, UID: "uid-" + name}
	l.Container = agentapi.ContainerRef{Name: "compute", ID: "id-" + name}
	l.State, l.Mode = agentapi.StateCreated, "enforce"
	if change != nil {
		change(&l)
	}
	cgroup := "/kubepods/pod-" + name + "/" + l.Container.ID
	r.config.Registry.Put(l)
	r.kernel.Write(cgroup, "cgroup.type", "domain\n")
	if err := r.Register(l, cgroup); err != nil && !errors.Is(err, errFull) {
		r.t.Fatal(err)
	}
	process := r.startProcess(cgroup)
	r.config.Registry.SetState(l.Container.ID, agentapi.StateRunning, process.PID)
	l, _ = r.config.Registry.Find(l.Container.ID)
	r.LauncherStarted(l)
	synctest.Wait()
	return launcher{l, process, cgroup}
}

func (r *rig) startProcess(cgroup string) host.Process {
	r.pid++
	return r.kernel.Start(r.pid, cgroup, host.Rlimit{})
}

// startQEMU starts an emulator in a cgroup and sends the tracker's event.
func (r *rig) startQEMU(cgroup string, args ...string) host.Process {
	r.t.Helper()
	p := r.startProcess(cgroup)
	r.kernel.SetArguments(p.PID, append([]string{"qemu-system-x86_64"}, args...)...)
	r.ProcessEvent(r.tracker.Exec(p, "qemu-system-x86_64"))
	synctest.Wait()
	return p
}

// group returns the tracker's group of a launcher.
func (r *rig) group(l launcher) uint64 {
	r.t.Helper()
	group, err := r.tracker.Register(l.cgroup)
	if err != nil {
		r.t.Fatal(err)
	}
	return group
}

// exit ends a VM process or launcher process and sends the tracker's event.
func (r *rig) exit(p host.Process, how string) {
	r.t.Helper()
	tracked := supervisor.Tracked{Process: p, Executable: "qemu-system-x86_64"}
	r.ProcessEvent(supervisor.ProcessEvent{Tracked: tracked, Ended: true, How: how})
	synctest.Wait()
	r.kernel.Exit(p.PID)
	synctest.Wait()
}

// advance lets time pass.
func (r *rig) advance(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// view returns the launcher as the agent's API shows it.
func (r *rig) view(l launcher) agentapi.Launcher {
	r.t.Helper()
	launcher, ok := r.config.Registry.Find(l.Container.ID)
	if !ok {
		r.t.Fatalf("launcher %s is not in the registry", l.Pod.Name)
	}
	return launcher.View(r.config.Clock.Now())
}

// expectPhase fails the test unless the launcher is in this phase with VMs in these states.
func (r *rig) expectPhase(l launcher, phase agentapi.Phase, states ...agentapi.VMState) {
	r.t.Helper()
	view := r.view(l)
	var got []agentapi.VMState
	for _, v := range view.VMs {
		got = append(got, v.State)
	}
	if view.Phase != phase || !slices.Equal(got, states) {
		r.t.Fatalf("launcher %s is %s with VMs %v, want %s with %v: %s",
			l.Pod.Name, view.Phase, got, phase, states, view.Why)
	}
}

// expectSignals fails the test unless the process got exactly these signals.
func (r *rig) expectSignals(p host.Process, want ...string) {
	r.t.Helper()
	if got := r.kernel.Signals(p.PID); !slices.Equal(got, want) {
		r.t.Fatalf("signals of process %s: %v, want %v", strconv.Itoa(p.PID), got, want)
	}
}

// expectEvent fails the test unless an Event with this reason was recorded.
func (r *rig) expectEvent(reason agentapi.Reason) {
	r.t.Helper()
	if !slices.Contains(r.recorder.Reasons(), reason) {
		r.t.Fatalf("Events with reasons %v, want %s", r.recorder.Reasons(), reason)
	}
}

// expectWait fails the test unless an Event says that the stop waits, or none does.
func (r *rig) expectWait(want bool) {
	r.t.Helper()
	n := 0
	for _, reason := range r.recorder.Reasons() {
		if reason == agentapi.ReasonVMStuck {
			n++
		}
	}
	if n > 1 || (n == 1) != want {
		r.t.Errorf("%d Events VMStuck, want one: %t", n, want)
	}
}

// stopRequested reports whether the pod's stop request is unconfirmed.
func (r *rig) stopRequested(l launcher) bool {
	touched, _ := r.podDirs.Touched(l.Pod.UID)
	return touched.StopRequested
}

// requestStop writes a stop request into the pod directory and notifies the supervisor.
func (r *rig) requestStop(l launcher) {
	r.podDirs.Touch(l.Pod.UID, func(s *poddir.Touched) { s.StopRequested = true })
	r.PodTouched(l.Pod.UID)
	synctest.Wait()
}
