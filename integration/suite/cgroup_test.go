package suite

import (
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/integration/cri"
)

func TestCgroupSettingsArrive(t *testing.T) {
	f := setUp(t)
	settings := map[string]struct{ asked, want string }{
		"cpu.max":          {"150000 100000", "150000 100000"},
		"cpu.weight":       {"321", "321"},
		"cpuset.cpus":      {"0", "0"},
		"memory.high":      {"1536Mi", "1610612736"},
		"memory.low":       {"256Mi", "268435456"},
		"memory.oom.group": {"1", "1"},
		"memory.swap.max":  {"0", "0"},
		"pids.max":         {"512", "512"},
	}
	annotations := map[string]string{}
	for file, s := range settings {
		annotations[file+api.CgroupSuffix] = s.asked
	}
	p := launcher(annotations)
	i := f.run(t, p, cri.Container{MemoryLimit: 2 * gib})
	for file, s := range settings {
		if got := f.cgroup(t, i, file); got != s.want {
			t.Errorf("%s is %q, want %q", file, got, s.want)
		}
	}
	if got := f.cgroup(t, i, "memory.max"); got != "2147483648" {
		t.Errorf("memory.max is %s, want the container's own limit", got)
	}
	for file := range settings {
		status := agentapi.StatusApplied
		if file == "memory.low" {
			status = agentapi.StatusIneffective // no ancestor protects it
		}
		f.awaitSetting(t, p, file, status)
	}
}

// TestKubeletsUpdateDoesNotUndo: kubelet rewrites its own files whenever it
// updates a container.
func TestKubeletsUpdateDoesNotUndo(t *testing.T) {
	f := setUp(t)
	p := launcher(map[string]string{
		"cpu.weight" + api.CgroupSuffix:  "321",
		"memory.high" + api.CgroupSuffix: "1Gi",
	})
	i := f.run(t, p, cri.Container{MemoryLimit: 2 * gib})
	if err := i.Update(t.Context(), 3*gib); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{"memory.max": "3221225472", "cpu.weight": "321", "memory.high": "1073741824"} {
		if got := f.cgroup(t, i, file); got != want {
			t.Errorf("%s is %s after the update, want %s", file, got, want)
		}
	}
}

func TestDifferenceIsTold(t *testing.T) {
	f := setUp(t)
	p := launcher(map[string]string{"memory.high" + api.CgroupSuffix: "1Gi"})
	i := f.run(t, p, cri.Container{MemoryLimit: 2 * gib})
	f.awaitSetting(t, p, "memory.high", agentapi.StatusApplied)
	f.output(t, "sh", "-c", "echo max > /sys/fs/cgroup$(cut -d: -f3 /proc/"+itoa(f.pid(t, i))+"/cgroup)/memory.high")
	if err := f.agent.Restart(t.Context()); err != nil { // the next check of its own is half a minute away
		t.Fatal(err)
	}
	s := f.awaitSetting(t, p, "memory.high", agentapi.StatusDiffers)
	if s.Given != "1073741824" || s.Seen != "max" {
		t.Errorf("given %s, seen %s, want 1073741824 and max", s.Given, s.Seen)
	}
	f.awaitEvent(t, p, agentapi.ReasonCgroupDiffers)
}

func TestPodDirectory(t *testing.T) {
	f := setUp(t)
	p := launcher(map[string]string{api.RequiresLockKey: "true"})
	i := f.run(t, p, cri.Container{MemoryLimit: gib, User: 107})
	if _, err := i.Exec(t.Context(), "touch", "/run/mooring/pod/heartbeat"); err != nil {
		t.Errorf("the pod's part is not writable: %v", err)
	}
	if out := f.output(t, "ls", "/run/mooring/pods/"+p.UID+"/pod"); out != "heartbeat" {
		t.Errorf("the node sees %q in the pod's part", out)
	}
	for _, path := range []string{"/run/mooring/x", "/run/mooring/pod/../x"} {
		if _, err := i.Exec(t.Context(), "touch", path); err == nil {
			t.Errorf("the pod could write %s", path)
		}
	}
	mounts := f.output(t, "grep", " /run/mooring", "/proc/"+itoa(f.pid(t, i))+"/mounts")
	for line := range strings.Lines(mounts) {
		for _, option := range []string{"nosuid", "nodev", "noexec"} {
			if !strings.Contains(line, option) {
				t.Errorf("mounted without %s: %s", option, line)
			}
		}
	}
	if strings.Count(mounts, "\n") != 1 {
		t.Errorf("want two mounts, have %s", mounts)
	}
}

// TestPodCannotFillTheNodesRun fills the pod's part and looks at the node's.
func TestPodCannotFillTheNodesRun(t *testing.T) {
	f := setUp(t)
	i := f.run(t, launcher(map[string]string{api.RequiresLockKey: "true"}), cri.Container{MemoryLimit: gib})
	if _, err := i.Exec(t.Context(), "dd", "if=/dev/zero", "of=/run/mooring/pod/big", "bs=1048576", "count=2000"); err == nil {
		t.Error("2 GB fit into the pod's part")
	}
	f.output(t, "dd", "if=/dev/zero", "of=/run/still-room", "bs=1M", "count=1", "status=none")
	f.output(t, "rm", "/run/still-room")
	if err := f.agent.Ready(t.Context()); err != nil {
		t.Errorf("the agent minds: %v", err)
	}
	if _, err := i.Exec(t.Context(), "rm", "/run/mooring/pod/big"); err != nil {
		t.Error(err)
	}
}

func TestPodDirectoryGoesWithThePod(t *testing.T) {
	f := setUp(t)
	p := launcher(map[string]string{api.RequiresLockKey: "true"})
	s := f.sandbox(t, p)
	i, err := s.Run(t.Context(), cri.Container{Name: "compute", MemoryLimit: gib})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := i.Exec(t.Context(), "sh", "-c", "mkdir -m 0 /run/mooring/pod/closed && ln -s / /run/mooring/pod/root"); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the pod directory to go", func() bool {
		_, err := f.Output(t.Context(), "test", "-e", "/run/mooring/pods/"+p.UID)
		return err != nil
	}, func() string { return "still there" })
	f.output(t, "test", "-e", "/etc/passwd") // what the link pointed at
}

func TestUserNamespace(t *testing.T) {
	f := setUp(t)
	p := launcher(map[string]string{api.RequiresLockKey: "true", api.ValueKey: "1Gi"})
	p.UserNamespace = 1 << 20
	p.Handler = "crun" // runc maps mounts from 1.2 on, and Debian 13 has 1.1
	i := f.run(t, p, cri.Container{MemoryLimit: gib})
	if got, want := f.memlock(t, i), both(2*gib); got != want {
		t.Errorf("the kernel has %s, want %s", got, want)
	}
	if _, err := i.Exec(t.Context(), "touch", "/run/mooring/pod/heartbeat"); err != nil {
		t.Errorf("the pod's part is not writable: %v", err)
	}
	if _, err := i.Exec(t.Context(), "touch", "/run/mooring/x"); err == nil {
		t.Error("the pod could write beside its part")
	}
}

func TestCrun(t *testing.T) {
	f := setUp(t)
	p := launcher(map[string]string{
		api.RequiresLockKey: "true", api.ValueKey: "1Gi",
		"memory.high" + api.CgroupSuffix: "512Mi", "pids.max" + api.CgroupSuffix: "100",
	})
	p.Handler = "crun"
	i := f.run(t, p, cri.Container{MemoryLimit: gib})
	if got, want := f.memlock(t, i), both(2*gib); got != want {
		t.Errorf("the kernel has %s, want %s", got, want)
	}
	f.awaitSetting(t, p, "memory.high", agentapi.StatusApplied)
	f.awaitSetting(t, p, "pids.max", agentapi.StatusApplied)
}
