package guard_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/guard"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/lifecycletest"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

// bench is a guard with a fake kernel and one launcher: container "id" of pod "u", process 100,
// limit 5Gi.
type bench struct {
	guard    *guard.Guard
	registry *registry.Registry
	kernel   *lifecycletest.Kernel
	recorder *lifecycletest.Recorder
}

const (
	podCgroup = "/kubepods.slice/pod.slice"
	cgroup    = podCgroup + "/cri-containerd-id.scope"
)

const gi = 1 << 30

func (b *bench) granted() int64 { return b.registry.Account().Granted }

func same(l host.Limit) host.Rlimit { return host.Rlimit{Soft: l, Hard: l} }

type benchConfig struct {
	repair   bool
	enforce  bool
	interval time.Duration
	cgroup   []api.CgroupSetting
}

// withBench calls test while the guard runs, in a synctest bubble.
func withBench(t *testing.T, cfg benchConfig, test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{
			registry: registry.New(), kernel: lifecycletest.NewKernel(),
			recorder: &lifecycletest.Recorder{},
		}
		b.guard = guard.New(guard.Config{
			Registry: b.registry, Kernel: b.kernel, Recorder: b.recorder,
			Logger: slog.New(slog.DiscardHandler),
			Repair: func() bool { return cfg.repair }, Interval: cfg.interval,
			Enforce: func() bool { return cfg.enforce },
		})
		b.registry.Put(newLauncher(cfg.cgroup))
		ctx, cancel := context.WithCancel(context.Background())
		defer synctest.Wait()
		defer cancel()
		go b.guard.Run(ctx)
		test(t, b)
	})
}

func newLauncher(files []api.CgroupSetting) registry.Launcher {
	demand := host.Limit(5 * gi)
	l := registry.Launcher{
		Launcher: agentapi.Launcher{
			Pod:       agentapi.PodRef{Namespace: "ns", Name: "pod-u", UID: "u"},
			Container: agentapi.ContainerRef{Name: "compute", ID: "id", PID: 100},
			State:     agentapi.StateRunning,
			Settings: []agentapi.Setting{{Name: agentapi.MemlockSetting,
				Requested: demand.String(), Status: agentapi.StatusPending}},
		},
		SandboxID: "sandbox-u",
		Demand:    &demand,
		Given:     registry.Given{Memlock: &demand, Cgroup: files},
	}
	for _, s := range files {
		l.Settings = append(l.Settings, agentapi.Setting{Name: s.File, Requested: s.Value,
			Status: agentapi.StatusPending})
	}
	return l
}

// check makes the guard check the launcher, and returns the launcher.
func (b *bench) check(t *testing.T) registry.Launcher {
	t.Helper()
	b.guard.Enqueue("id")
	synctest.Wait()
	l, ok := b.registry.Find("id")
	if !ok {
		t.Fatal("the launcher is not in the registry")
	}
	return l
}

func (b *bench) expectReasons(t *testing.T, want ...agentapi.Reason) {
	t.Helper()
	if diff := cmp.Diff(want, b.recorder.Reasons()); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestGuardConfirms(t *testing.T) {
	withBench(t, benchConfig{repair: true}, func(t *testing.T, b *bench) {
		b.kernel.Start(100, cgroup, same(5*gi))
		b.kernel.Start(101, cgroup+"/child", host.Rlimit{Soft: 6 * gi, Hard: host.Unlimited})
		s := b.check(t).Settings[0]
		if s.Status != agentapi.StatusApplied || s.Observed != "5Gi" {
			t.Errorf("setting = %+v, want applied, seen 5Gi", s)
		}
		b.expectReasons(t)
	})
}

func TestGuardReports(t *testing.T) {
	withBench(t, benchConfig{}, func(t *testing.T, b *bench) {
		low := b.kernel.Start(100, cgroup, host.Rlimit{Soft: 65536, Hard: 8 << 20})
		b.kernel.Start(101, cgroup, same(5*gi))
		for range 2 { // the second check finds no change
			s := b.check(t).Settings[0]
			if s.Status != agentapi.StatusDiffers || s.Observed != "64Ki" {
				t.Errorf("setting = %+v, want differs, seen 64Ki", s)
			}
		}
		b.expectReasons(t, agentapi.ReasonLimitMissing)
		for _, want := range []string{"1 of 2 processes", "5Gi", "process 100 had 64Ki (hard 8Mi)",
			`"report"`} {
			if text := b.check(t).Settings[0].Message; !strings.Contains(text, want) {
				t.Errorf("message lacks %q: %s", want, text)
			}
		}
		want := `processes of the launcher may lock less than 5Gi; policy says memlock.repair: ` +
			`"report", so nothing was done`
		if got := b.recorder.Events()[0].Message; got != want {
			t.Errorf("event = %q, want %q", got, want)
		}
		if got, _ := b.kernel.Memlock(low); got.Soft != 65536 {
			t.Errorf("limit was changed to %v", got)
		}
	})
}

func TestGuardRepairs(t *testing.T) {
	withBench(t, benchConfig{repair: true}, func(t *testing.T, b *bench) {
		low := b.kernel.Start(100, cgroup, host.Rlimit{Soft: 65536, Hard: 65536})
		high := b.kernel.Start(101, cgroup, host.Rlimit{Soft: 65536, Hard: host.Unlimited})
		outside := b.kernel.Start(102, podCgroup+"/other", same(65536))
		s := b.check(t).Settings[0]
		if s.Status != agentapi.StatusRepaired || s.Observed != "5Gi" {
			t.Errorf("setting = %+v, want repaired, seen 5Gi", s)
		}
		for p, want := range map[host.Process]host.Rlimit{
			low: same(5 * gi), high: {Soft: 5 * gi, Hard: host.Unlimited}, outside: same(65536),
		} {
			if got, err := b.kernel.Memlock(p); err != nil || got != want {
				t.Errorf("limit of process %d = %v, %v, want %v", p.PID, got, err, want)
			}
		}
		if s := b.check(t).Settings[0]; s.Status != agentapi.StatusRepaired {
			t.Errorf("setting at the next check = %+v, want still repaired", s)
		}
		b.expectReasons(t, agentapi.ReasonLimitRepaired)
	})
}

func TestGuardRepairsNewProcesses(t *testing.T) {
	withBench(t, benchConfig{repair: true}, func(t *testing.T, b *bench) {
		children := 3
		b.kernel.BeforeSet = func(host.Process) error {
			if children > 0 {
				children--
				// forked just before the repair of its parent
				b.kernel.Start(200+children, cgroup, same(65536))
			}
			return nil
		}
		b.kernel.Start(100, cgroup, same(65536))
		if s := b.check(t).Settings[0]; s.Status != agentapi.StatusRepaired || s.Observed != "5Gi" {
			t.Errorf("setting = %+v, want repaired, seen 5Gi", s)
		}
		if children != 0 {
			t.Errorf("%d processes were not found", children)
		}
	})
}

func TestGuardBoundsRepairsDuringForks(t *testing.T) {
	withBench(t, benchConfig{repair: true}, func(t *testing.T, b *bench) {
		next := 200
		b.kernel.BeforeSet = func(host.Process) error {
			next++
			b.kernel.Start(next, cgroup, same(65536))
			return nil
		}
		b.kernel.Start(100, cgroup, same(65536))
		b.check(t) // must return
		if next > 250 {
			t.Errorf("%d processes were repaired in one check", next-200)
		}
	})
}

func TestGuardSkipsEndedProcesses(t *testing.T) {
	withBench(t, benchConfig{repair: true}, func(t *testing.T, b *bench) {
		b.kernel.BeforeSet = func(p host.Process) error {
			if p.PID == 101 {
				b.kernel.Exit(101)
				b.kernel.Start(101, "/elsewhere", same(1)) // reused by another process
			}
			return nil
		}
		b.registry.Update("id", func(l *registry.Launcher) { l.Cgroup = cgroup })
		b.kernel.Start(101, cgroup, same(65536)) // without the first process it needs the limit
		b.kernel.Start(102, cgroup, same(5*gi))
		if s := b.check(t).Settings[0]; s.Status != agentapi.StatusApplied {
			t.Errorf("setting = %+v, want applied: the remaining process has the limit", s)
		}
		procs, err := b.kernel.Processes("/elsewhere")
		if err != nil || len(procs) != 1 {
			t.Fatal(procs, err)
		}
		if got, _ := b.kernel.Memlock(procs[0]); got != same(1) {
			t.Errorf("limit of the process with the reused pid = %v, want it unchanged", got)
		}
	})
}

func TestGuardReportsFailedRepair(t *testing.T) {
	withBench(t, benchConfig{repair: true}, func(t *testing.T, b *bench) {
		b.kernel.BeforeSet = func(host.Process) error { return errors.New("not permitted") }
		b.kernel.Start(100, cgroup, same(65536))
		s := b.check(t).Settings[0]
		if s.Status != agentapi.StatusDiffers ||
			!strings.Contains(s.Message, "repair failed: not permitted") {
			t.Errorf("setting = %+v, want a message with the reason", s)
		}
		b.expectReasons(t, agentapi.ReasonLimitMissing)
	})
}

func TestGuardOnlyObservesInObserveMode(t *testing.T) {
	withBench(t, benchConfig{repair: true}, func(t *testing.T, b *bench) {
		l := newLauncher([]api.CgroupSetting{{File: "memory.high", Value: "4096"}})
		l.Given = registry.Given{} // observe mode
		for i := range l.Settings {
			l.Settings[i].Status = agentapi.StatusObserved
		}
		b.registry.Put(l)
		p := b.kernel.Start(100, cgroup, same(65536))
		b.kernel.Write(cgroup, "memory.high", "max\n")
		got := b.check(t).Settings
		for i, seen := range []string{"64Ki", "max"} {
			if got[i].Status != agentapi.StatusObserved || got[i].Observed != seen {
				t.Errorf("setting = %+v, want observed, seen %s", got[i], seen)
			}
		}
		if limit, _ := b.kernel.Memlock(p); limit != same(65536) {
			t.Errorf("limit = %v, want it unchanged", limit)
		}
		b.expectReasons(t)
	})
}

func TestGuardKeepsYieldedSettings(t *testing.T) {
	withBench(t, benchConfig{}, func(t *testing.T, b *bench) {
		b.registry.Update("id", func(l *registry.Launcher) {
			l.Settings[0].Status, l.Settings[0].Message = agentapi.StatusYielded, "as it was"
		})
		b.kernel.Start(100, cgroup, same(8*gi))
		if s := b.check(t).Settings[0]; s.Status != agentapi.StatusYielded ||
			s.Message != "as it was" || s.Observed != "8Gi" {
			t.Errorf("setting = %+v, want yielded, seen 8Gi", s)
		}
	})
}

func TestGuardMarksEndedLauncherStopped(t *testing.T) {
	for name, end := range map[string]func(*lifecycletest.Kernel){
		"all processes exited": func(*lifecycletest.Kernel) {},
		"pid reused by another container": func(k *lifecycletest.Kernel) {
			k.Start(100, podCgroup+"/cri-containerd-other.scope", same(1))
		},
		"cgroup removed": func(k *lifecycletest.Kernel) { k.Rmdir(cgroup) },
	} {
		t.Run(name, func(t *testing.T) {
			withBench(t, benchConfig{}, func(t *testing.T, b *bench) {
				end(b.kernel)
				if l := b.check(t); l.State != agentapi.StateStopped {
					t.Errorf("state = %s, want %s", l.State, agentapi.StateStopped)
				}
				if b.granted() != 0 {
					t.Errorf("granted = %d, want 0", b.granted())
				}
			})
		})
	}
}

// The container's first process may exit before its other processes.
func TestGuardOutlivesTheFirstProcess(t *testing.T) {
	withBench(t, benchConfig{}, func(t *testing.T, b *bench) {
		b.kernel.Start(100, cgroup, same(5*gi))
		b.kernel.Start(101, cgroup, same(5*gi))
		b.check(t)
		b.kernel.Exit(100)
		if l := b.check(t); l.State != agentapi.StateRunning ||
			l.Settings[0].Status != agentapi.StatusApplied {
			t.Errorf("launcher = %+v, want it running", l)
		}
	})
}

func TestGuardChecksAllPeriodically(t *testing.T) {
	withBench(t, benchConfig{interval: time.Minute}, func(t *testing.T, b *bench) {
		b.kernel.Start(100, cgroup, same(5*gi))
		b.check(t)
		b.kernel.Start(100, cgroup, same(65536)) // lowered its own limit
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		b.expectReasons(t, agentapi.ReasonLimitMissing)
	})
}

func TestGuardQueueIsBounded(t *testing.T) {
	dropped := &dropCounter{}
	g := guard.New(guard.Config{
		Registry: registry.New(), Kernel: lifecycletest.NewKernel(), Observer: dropped,
	})
	for range 2 { // a queued launcher is not queued twice
		for i := range 4096 {
			g.Enqueue(fmt.Sprint(i))
		}
	}
	if dropped.n != 0 {
		t.Errorf("%d checks were dropped before the queue was full", dropped.n)
	}
	g.Enqueue("one too many")
	if dropped.n != 1 {
		t.Errorf("%d checks were dropped, want 1", dropped.n)
	}
}

type dropCounter struct{ n int }

func (d *dropCounter) CheckDropped() { d.n++ }

func (d *dropCounter) Checked(string, agentapi.Status, bool) {}
