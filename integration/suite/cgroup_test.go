package suite

import (
	"testing"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/integration/cri"
)

func TestCoreCgroupSettingsArrive(t *testing.T) {
	claim(t, "The launcher's cgroup has the annotated settings")
	f := setUp(t)
	settings := map[string]struct{ annotated, want string }{
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
		annotations[file+api.CgroupSuffix] = s.annotated
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

func TestDifferenceIsReported(t *testing.T) {
	f := setUp(t)
	p := launcher(map[string]string{"memory.high" + api.CgroupSuffix: "1Gi"})
	i := f.run(t, p, cri.Container{MemoryLimit: 2 * gib})
	f.awaitSetting(t, p, "memory.high", agentapi.StatusApplied)
	f.output(t, "sh", "-c",
		"echo max > /sys/fs/cgroup$(sed -n s/^0:://p /proc/"+itoa(f.pid(t, i))+
			"/cgroup)/memory.high")
	// the agent's next regular check is half a minute away
	if err := f.agent.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := f.awaitSetting(t, p, "memory.high", agentapi.StatusDiffers)
	if s.Given != "1Gi" || s.Observed != "max" {
		t.Errorf("given %s, observed %s, want 1Gi and max", s.Given, s.Observed)
	}
	f.awaitEvent(t, p, agentapi.ReasonCgroupDiffers)
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
