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
	signs    *lifecycletest.PodDirs
	domains  *lifecycletest.Domains
	store    *lifecycletest.Store
	recorder *lifecycletest.Recorder
	stop     func()
	pid      int
}

// the terms of the tests.
const (
	grace = 30 * time.Second
	term  = 10 * time.Second
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
		t: t, kernel: lifecycletest.NewKernel(), signs: &lifecycletest.PodDirs{}, domains: &lifecycletest.Domains{},
		store: &lifecycletest.Store{}, recorder: &lifecycletest.Recorder{}, pid: 100, stop: func() {},
	}
	r.tracker = lifecycletest.NewTracker(r.kernel)
	r.kernel.Clock = lifecycletest.NewClock()
	r.config = supervisor.Config{
		Registry: registry.New(), Tracker: r.tracker, Processes: r.kernel, Domains: r.domains, PodDirs: r.signs,
		Store: r.store, Recorder: r.recorder, Clock: r.kernel.Clock, Logger: slog.New(slog.DiscardHandler),
		Terms: tie.Terms{Enforce: true, GracePeriod: grace, TermPeriod: term},
	}
	if change != nil {
		change(&r.config)
	}
	return r
}

// start runs a supervisor; a second one takes over from the first.
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

// launcher is one that runs, with its owner.
type launcher struct {
	registry.Launcher
	owner  host.Process
	cgroup string
}

// launch starts a launcher as the plugin would tell of it.
func (r *rig) launch(name string, change func(*registry.Launcher)) launcher {
	r.t.Helper()
	r.signs.Touch("uid-"+name, func(*poddir.Touched) {})
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
	owner := r.process(cgroup)
	r.config.Registry.SetState(l.Container.ID, agentapi.StateRunning, owner.PID)
	l, _ = r.config.Registry.Find(l.Container.ID)
	r.LauncherStarted(l)
	synctest.Wait()
	return launcher{l, owner, cgroup}
}

func (r *rig) process(cgroup string) host.Process {
	r.pid++
	return r.kernel.Start(r.pid, cgroup, host.Rlimit{})
}

// qemu starts an emulator in a cgroup, and has the tracker tell.
func (r *rig) qemu(cgroup string, args ...string) host.Process {
	r.t.Helper()
	p := r.process(cgroup)
	r.kernel.SetArguments(p.PID, append([]string{"qemu-system-x86_64"}, args...)...)
	r.ProcessEvent(r.tracker.Exec(p, "qemu-system-x86_64"))
	synctest.Wait()
	return p
}

// group is that of a launcher's processes.
func (r *rig) group(l launcher) uint64 {
	r.t.Helper()
	group, err := r.tracker.Register(l.cgroup)
	if err != nil {
		r.t.Fatal(err)
	}
	return group
}

// exit ends a process, and has the tracker tell.
func (r *rig) exit(p host.Process, how string) {
	r.t.Helper()
	r.ProcessEvent(supervisor.ProcessEvent{Tracked: supervisor.Tracked{Process: p, Executable: "qemu-system-x86_64"}, Ended: true, How: how})
	synctest.Wait()
	r.kernel.Exit(p.PID)
	synctest.Wait()
}

// after lets time pass.
func (r *rig) after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// shown is what people see of a launcher.
func (r *rig) shown(l launcher) agentapi.Launcher {
	r.t.Helper()
	now, ok := r.config.Registry.Find(l.Container.ID)
	if !ok {
		r.t.Fatalf("the registry does not know launcher %s", l.Pod.Name)
	}
	return now.View(r.config.Clock.Now())
}

// is fails unless the launcher is in the phase, with VMs in those states.
func (r *rig) is(l launcher, phase agentapi.Phase, states ...agentapi.VMState) {
	r.t.Helper()
	shown := r.shown(l)
	var got []agentapi.VMState
	for _, v := range shown.VMs {
		got = append(got, v.State)
	}
	if shown.Phase != phase || !slices.Equal(got, states) {
		r.t.Fatalf("launcher %s is %s with VMs %v, want %s with %v: %s", l.Pod.Name, shown.Phase, got, phase, states, shown.Why)
	}
}

// sent fails unless exactly these signals were sent to the process.
func (r *rig) sent(p host.Process, want ...string) {
	r.t.Helper()
	if got := r.kernel.Signals(p.PID); !slices.Equal(got, want) {
		r.t.Fatalf("signals to process %s: %v, want %v", strconv.Itoa(p.PID), got, want)
	}
}

// told fails unless people were told for this reason.
func (r *rig) told(reason agentapi.Reason) {
	r.t.Helper()
	if !slices.Contains(r.recorder.Reasons(), reason) {
		r.t.Fatalf("told of %v, want %s", r.recorder.Reasons(), reason)
	}
}

// stopAsked is whether the pod's request is still there.
func (r *rig) stopAsked(l launcher) bool {
	signs, _ := r.signs.Touched(l.Pod.UID)
	return signs.StopRequested
}

// ask has the pod ask for its VM to be stopped.
func (r *rig) ask(l launcher) {
	r.signs.Touch(l.Pod.UID, func(s *poddir.Touched) { s.StopRequested = true })
	r.PodTouched(l.Pod.UID)
	synctest.Wait()
}
