package suite

import (
	"testing"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/integration/cri"
)

// TestCoreKubeletUpdateKeepsSettings: kubelet rewrites its own files whenever it updates a
// container. The agent sets them again; without it, what the container's spec keeps in unified
// does.
func TestCoreKubeletUpdateKeepsSettings(t *testing.T) {
	claim(t, "Cgroup settings survive kubelet's updates, with and without the agent")
	f := setUp(t)
	for name, while := range map[string]func(do func()){
		"while the agent runs":       func(do func()) { do() },
		"while the agent is stopped": func(do func()) { defer f.stopAgent(t)(); do() },
	} {
		t.Run(name, func(t *testing.T) {
			i := f.run(t, launcher(map[string]string{
				"cpu.max" + api.CgroupSuffix:     "150000 100000",
				"cpu.weight" + api.CgroupSuffix:  "321",
				"cpuset.cpus" + api.CgroupSuffix: "0",
				"memory.high" + api.CgroupSuffix: "1Gi",
			}), cri.Container{MemoryLimit: 2 * gib})
			kept := map[string]string{
				"cpu.max": "150000 100000", "cpu.weight": "321", "cpuset.cpus": "0",
				"memory.high": "1073741824",
			}
			f.cgroupHas(t, i, kept)
			while(func() {
				if err := i.Update(t.Context(), cri.Resources{MemoryLimit: 3 * gib, CPUQuota: 50000,
					CPUs: "0-1"}); err != nil {
					t.Error(err)
				}
				f.cgroupHas(t, i, with(kept, map[string]string{"memory.max": "3221225472"}))
			})
			f.cgroupHas(t, i, kept)
		})
	}
}

// Without Mooring's settings, the update of the test above changes the files.
func TestKubeletUpdateWithoutSettings(t *testing.T) {
	f := setUp(t)
	i := f.run(t, launcher(nil), cri.Container{MemoryLimit: 2 * gib})
	if err := i.Update(t.Context(), cri.Resources{MemoryLimit: 3 * gib, CPUQuota: 50000,
		CPUs: "0-1"}); err != nil {
		t.Fatal(err)
	}
	f.cgroupHas(t, i, map[string]string{"cpu.max": "50000 100000", "cpuset.cpus": "0-1",
		"memory.max": "3221225472"})
}

func (f fixture) cgroupHas(t *testing.T, i *cri.Instance, want map[string]string) {
	t.Helper()
	for file, value := range want {
		if got := f.cgroup(t, i, file); got != value {
			t.Errorf("%s is %s, want %s", file, got, value)
		}
	}
}
