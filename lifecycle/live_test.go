package lifecycle_test

import (
	"context"
	"errors"
	"testing"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle"
	"github.com/mooring-vm/mooring/lifecycle/lifecycletest"
)

// withVM has the launcher of a bench run, with a VM process that has the lock and a
// ceiling of 16Gi.
func (b *bench) withVM(lock lifecycle.Rlimit) lifecycle.Process {
	b.kernel.Start(100, cgroup, same(5*gi))
	vm := b.kernel.Start(101, cgroup, lock)
	b.registry.Update("id", func(l *lifecycle.Launcher) {
		ceiling := lifecycle.Limit(16 * gi)
		l.Ceiling, l.VMs = &ceiling, []agentapi.VM{{PID: vm.PID, StartTime: vm.StartTime, State: agentapi.VMRunning}}
	})
	return vm
}

// What a VM process may lock by a resize is counted, and ends with it.
func TestVMLockIsCounted(t *testing.T) {
	withBench(t, benchConfig{}, func(t *testing.T, b *bench) {
		vm := b.withVM(same(5 * gi))
		for _, c := range []struct{ lock, want lifecycle.Limit }{{8 * gi, 8 * gi}, {6 * gi, 6 * gi}, {3 * gi, 5 * gi}, {9 * gi, 9 * gi}} {
			b.registry.Update("id", func(l *lifecycle.Launcher) { l.SetLock(vm, c.lock) })
			if got := granted(b.registry); lifecycle.Limit(got) != c.want {
				t.Errorf("account %d with a lock of %s, want %s", got, c.lock, c.want)
			}
		}
		b.registry.Update("id", func(l *lifecycle.Launcher) { l.SetLock(vm, lifecycle.Unlimited) })
		if a := b.registry.Account(); a.Granted != 0 || a.Unlimited != 1 {
			t.Errorf("account %+v, want one without limit", a)
		}
		b.registry.Update("id", func(l *lifecycle.Launcher) {
			l.SetNeed(vm, 3)
			l.VMs = nil
		})
		if l, _ := b.registry.Find("id"); l.Live != nil || l.Needs() != 0 || granted(b.registry) != 5*gi {
			t.Errorf("%+v is left of a VM that is gone, account %d", l.Live, granted(b.registry))
		}
	})
}

// A VM process is held to what it was given by a resize, and its launcher is not.
func TestGuardHoldsVMToItsLock(t *testing.T) {
	withBench(t, benchConfig{repair: true}, func(t *testing.T, b *bench) {
		vm := b.withVM(same(8 * gi))
		b.registry.Update("id", func(l *lifecycle.Launcher) { l.SetLock(vm, 8*gi) })
		if s := b.check(t).Settings[0]; s.Status != agentapi.StatusApplied {
			t.Errorf("setting = %+v, want applied", s)
		}
		if err := b.kernel.SetMemlock(vm, same(6*gi)); err != nil {
			t.Fatal(err)
		}
		if s := b.check(t).Settings[0]; s.Status != agentapi.StatusRepaired {
			t.Errorf("setting = %+v, want repaired", s)
		}
		if got, err := b.kernel.Memlock(vm); got != same(8*gi) || err != nil {
			t.Errorf("the VM may lock %+v, %v, want 8Gi", got, err)
		}
	})
}

// Without repair it is told what the VM process lacks, of what it was given.
func TestGuardReportsVMLock(t *testing.T) {
	withBench(t, benchConfig{}, func(t *testing.T, b *bench) {
		vm := b.withVM(same(6 * gi))
		b.registry.Update("id", func(l *lifecycle.Launcher) { l.SetLock(vm, 8*gi) })
		s := b.check(t).Settings[0]
		if want := "less than the 8Gi given: process 101 had 6Gi"; s.Status != agentapi.StatusDiffers || !contains(s.Message, want) {
			t.Errorf("setting = %+v, want differs, with %q", s, want)
		}
	})
}

// An agent that was started again learns what an earlier one has raised, up to the
// ceiling. What a VM has from its launcher is nothing that was raised.
func TestGuardLearnsVMLock(t *testing.T) {
	for name, c := range map[string]struct {
		vm, launcher lifecycle.Limit
		want         int64
	}{
		"raised":             {8 * gi, 5 * gi, 8 * gi},
		"beyond the ceiling": {lifecycle.Unlimited, 5 * gi, 16 * gi},
		"from its launcher":  {lifecycle.Unlimited, lifecycle.Unlimited, 5 * gi},
		"as given":           {5 * gi, 5 * gi, 5 * gi},
	} {
		withBench(t, benchConfig{repair: true}, func(t *testing.T, b *bench) {
			b.withVM(same(c.vm))
			b.kernel.Start(100, cgroup, same(c.launcher))
			b.check(t)
			if got := granted(b.registry); got != c.want {
				t.Errorf("%s: account %d, want %d", name, got, c.want)
			}
		})
	}
}

func TestVM(t *testing.T) {
	running := func(pid int) agentapi.VM { return agentapi.VM{PID: pid, StartTime: 7, State: agentapi.VMRunning} }
	var l lifecycle.Launcher
	for _, vms := range [][]agentapi.VM{nil, {running(1), running(2)}, {{PID: 1, State: agentapi.VMKilling}}} {
		l.VMs = vms
		if p, err := l.VM(); !errors.Is(err, lifecycle.ErrNoVM) {
			t.Errorf("of %v: %v, %v, want ErrNoVM", vms, p, err)
		}
	}
	l.VMs = []agentapi.VM{running(3)}
	if p, err := l.VM(); p != (lifecycle.Process{PID: 3, StartTime: 7}) || err != nil {
		t.Errorf("%v, %v", p, err)
	}
}

// Somebody else sets the limit back at once: that is no success.
func TestMemlockIsReadBack(t *testing.T) {
	k := &stubborn{lifecycletest.NewKernel()}
	p := k.Start(1, "/a", same(4*gi))
	if err := lifecycle.RaiseMemlock(k, p, 5*gi); err == nil || !contains(err.Error(), "somebody else sets it") {
		t.Errorf("raised: %v", err)
	}
	if err := lifecycle.LowerMemlock(k, p, 3*gi); err == nil || !contains(err.Error(), "somebody else sets it") {
		t.Errorf("lowered: %v", err)
	}
}

// stubborn takes limits and does not keep them.
type stubborn struct{ *lifecycletest.Kernel }

func (*stubborn) SetMemlock(lifecycle.Process, lifecycle.Rlimit) error { return nil }

func TestRoom(t *testing.T) {
	k := lifecycletest.NewKernel()
	k.SetMemAvailable(10 * gi)
	k.Write("/kubepods/burstable/pod", "memory.max", "1\n") // is what is to change
	for _, c := range []struct {
		file, content string
		want          uint64
		ok            bool
	}{
		{"memory.current", "5\n", 10 * gi, true},
		{"memory.max", "max\n", 10 * gi, true},
		{"memory.max", "105\n", 0, false}, // no memory.stat
		{"memory.stat", "anon 5\n", 100, true},
		{"memory.stat", "anon 5\ninactive_file 2\n", 102, true},
		{"memory.stat", "inactive_file 7\n", 105, true},
		{"memory.max", "3\n", 3, true},
		{"memory.stat", "inactive_file 0\n", 0, true},
		{"memory.max", "much\n", 0, false},
	} {
		k.Write("/kubepods", c.file, c.content)
		got, err := lifecycle.Room(k, "/kubepods/burstable/pod")
		if got != c.want || (err == nil) != c.ok {
			t.Errorf("%s %q: room %d, %v, want %d", c.file, c.content, got, err, c.want)
		}
	}
}

// Each directory has a socket that answers, one at a time, and a report that is whole.
func TestPodDirsListen(t *testing.T) {
	root := t.TempDir()
	d := openPodDirs(t, root)
	dir := createPodDir(t, d, "u1")
	first, id, err := d.Listen(context.Background(), "u1")
	if err != nil {
		t.Fatal(err)
	}
	checkMode(t, dir.Path+"/agent.sock", socketMode)
	dial(t, dir.Path+"/agent.sock")
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, again, err := d.Listen(context.Background(), "u1")
	if err != nil || again != id {
		t.Fatalf("%v, another directory: %t", err, again != id)
	}
	defer second.Close()
	dial(t, dir.Path+"/agent.sock")
	for _, text := range []string{"one", "two"} {
		if err := d.WriteReport("u1", []byte(text)); err != nil {
			t.Fatal(err)
		}
		checkMode(t, dir.Path+"/resize.json", 0o444)
		if got := read(t, dir.Path+"/resize.json"); got != text {
			t.Errorf("the report is %q, want %q", got, text)
		}
	}
	if diff := diffNames(t, dir.Path, "agent.sock", "hook", "pod", "resize.json"); diff != "" {
		t.Errorf("in the directory (-want +got)\n%s", diff)
	}
	if _, err := d.Create("u1"); err != nil {
		t.Errorf("a directory with a socket: %v", err)
	}
	if now, err := d.ID("u1"); now != id || err != nil {
		t.Errorf("Create made another directory, %v", err)
	}
	for _, uid := range []string{"u2", "../u1", ""} {
		if _, _, err := d.Listen(context.Background(), uid); err == nil {
			t.Errorf("pod %q has a socket", uid)
		}
		if err := d.WriteReport(uid, nil); err == nil {
			t.Errorf("pod %q has a report", uid)
		}
	}
}

// Directories that are there, that come and that go are told.
func TestPodDirsFollow(t *testing.T) {
	d := openPodDirs(t, t.TempDir())
	createPodDir(t, d, "u1")
	ctx, cancel := context.WithCancel(context.Background())
	told := make(chan string, 10)
	done := make(chan error, 1)
	go func() { done <- d.Follow(ctx, func(uid string) { told <- uid }) }()
	for _, step := range []struct {
		do   func()
		want string
	}{
		{func() {}, "u1"},
		{func() { createPodDir(t, d, "u2") }, "u2"},
		{func() { _ = d.DiscardUnless("u1", nobody) }, "u1"},
	} {
		step.do()
		if got := <-told; got != step.want {
			t.Errorf("told of %s, want %s", got, step.want)
		}
	}
	if err := d.Follow(ctx, nil); err == nil {
		t.Error("it can be followed twice at once")
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// What VMs said to an earlier agent is taken up whether their launchers are known already
// or come later, once, and of the process that said it.
func TestRecallNeeds(t *testing.T) {
	launcher := func(id string, pid int) lifecycle.Launcher {
		l := lifecycle.Launcher{}
		l.Pod.UID, l.Container.ID, l.State = id, id, agentapi.StateRunning
		l.VMs = []agentapi.VM{{PID: pid, StartTime: 1}}
		return l
	}
	r := lifecycle.NewRegistry()
	r.Put(launcher("before", 1))
	r.RecallNeeds(map[lifecycle.Process]uint64{{PID: 1, StartTime: 1}: 10, {PID: 2, StartTime: 1}: 20, {PID: 3, StartTime: 2}: 30})
	r.Put(launcher("after", 2))
	r.Put(launcher("another", 3))
	for id, want := range map[string]uint64{"before": 10, "after": 20, "another": 0} {
		if l, _ := r.Find(id); l.Needs() != want {
			t.Errorf("%s needs %d, want %d", id, l.Needs(), want)
		}
	}
	r.Update("after", func(l *lifecycle.Launcher) { l.SetNeed(lifecycle.Process{PID: 2, StartTime: 1}, 0) })
	if l, _ := r.Find("after"); l.Needs() != 0 {
		t.Errorf("needs %d after it said that it needs nothing", l.Needs())
	}
}
