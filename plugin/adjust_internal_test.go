package plugin

import (
	"math"
	"testing"

	nri "github.com/containerd/nri/pkg/api"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/decide"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/poddir"
)

func TestResources(t *testing.T) {
	tests := map[string]struct {
		file, value string
		typed       *nri.LinuxResources // beside the unified map
	}{
		"cpu.max": {"cpu.max", "50000 100000",
			&nri.LinuxResources{Cpu: &nri.LinuxCPU{Quota: nri.Int64(50000),
				Period: nri.UInt64(uint64(100000))}}},
		"cpu.max without a quota": {"cpu.max", "max 20000",
			&nri.LinuxResources{Cpu: &nri.LinuxCPU{Quota: nri.Int64(-1),
				Period: nri.UInt64(uint64(20000))}}},
		"cpuset.cpus": {"cpuset.cpus", "0-3,8",
			&nri.LinuxResources{Cpu: &nri.LinuxCPU{Cpus: "0-3,8"}}},
		"cpuset.mems": {"cpuset.mems", "0",
			&nri.LinuxResources{Cpu: &nri.LinuxCPU{Mems: "0"}}},
		"pids.max": {"pids.max", "512",
			&nri.LinuxResources{Pids: &nri.LinuxPids{Limit: 512}}},
		"pids.max without limit": {"pids.max", "max",
			&nri.LinuxResources{Pids: &nri.LinuxPids{Limit: -1}}},
		"cpu.weight is unified only": {"cpu.weight", "200", &nri.LinuxResources{}},
		"hugetlb is unified only":    {"hugetlb.2MB.max", "1073741824", &nri.LinuxResources{}},
		"memory.low is unified only": {"memory.low", "1073741824", &nri.LinuxResources{}},
		"swap is unified only":       {"memory.swap.max", "0", &nri.LinuxResources{}},
		"burst is unified only":      {"cpu.max.burst", "1000", &nri.LinuxResources{}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if _, ok := api.LookupCgroupFile(test.file); !ok {
				t.Fatalf("no cgroup file %s", test.file)
			}
			test.typed.Unified = map[string]string{test.file: test.value}
			got := resources([]api.CgroupSetting{{File: test.file, Value: test.value}})
			if diff := cmp.Diff(test.typed, got, protocmp.Transform()); diff != "" {
				t.Errorf("resources (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAdjustment(t *testing.T) {
	const path = "/run/mooring/pods/u"
	dir := poddir.Dir{Path: path, Heartbeat: path + "/pod/heartbeat", Stop: path + "/pod/stop"}
	unlimited := host.Unlimited
	got := adjustment(decide.Decision{Launcher: true, Memlock: &unlimited}, dir, "/opt/hook")
	want := &nri.ContainerAdjustment{
		Rlimits: []*nri.POSIXRlimit{{Type: "RLIMIT_MEMLOCK", Soft: math.MaxUint64,
			Hard: math.MaxUint64}},
		Mounts: []*nri.Mount{
			bound("/run/mooring", dir.Path, "ro", "noexec"),
			bound("/run/mooring/pod/heartbeat", dir.Heartbeat, "rw", "noexec"),
			bound("/run/mooring/pod/stop", dir.Stop, "rw", "noexec"),
			bound("/run/mooring/hook", "/opt/hook", "ro"),
		},
	}
	if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
		t.Errorf("adjustment (-want +got):\n%s", diff)
	}
}

// No option maps ids: a user namespace needs none.
func bound(destination, source string, options ...string) *nri.Mount {
	return &nri.Mount{
		Destination: destination, Type: "bind", Source: source,
		Options: append([]string{"bind", "nosuid", "nodev", "rprivate"}, options...),
	}
}

func TestAdjustmentYields(t *testing.T) {
	limit := host.Limit(4096)
	got := adjustment(decide.Decision{Launcher: true, Memlock: &limit, Yield: true},
		poddir.Dir{}, "")
	if len(got.GetRlimits()) != 0 {
		t.Errorf("rlimits = %v, want none", got.GetRlimits())
	}
	if len(got.GetMounts()) != 3 {
		t.Errorf("mounts = %v, want the pod directory all the same", got.GetMounts())
	}
}

// Mounts are made in their order: what lies in the directory comes after it.
func TestMountsWithoutHook(t *testing.T) {
	var got []string
	for _, m := range mounts(poddir.Dir{}, "") {
		got = append(got, m.GetDestination())
	}
	if diff := cmp.Diff([]string{"/run/mooring", "/run/mooring/pod/heartbeat",
		"/run/mooring/pod/stop"}, got); diff != "" {
		t.Errorf("mounts (-want +got):\n%s", diff)
	}
}

func TestKubeletOwned(t *testing.T) {
	all := []api.CgroupSetting{{File: "cpu.max", Value: "max 100000"},
		{File: "cpuset.cpus", Value: "0"}, {File: "memory.high", Value: "4096"}}
	if diff := cmp.Diff(all[:2], kubeletOwned(all)); diff != "" {
		t.Errorf("kubelet's files (-want +got):\n%s", diff)
	}
}

func TestSpecMemlockLastHolds(t *testing.T) {
	ctr := &nri.Container{Rlimits: []*nri.POSIXRlimit{
		{Type: "RLIMIT_MEMLOCK", Soft: 1, Hard: 2}, {Type: "RLIMIT_NOFILE", Soft: 3, Hard: 4},
		{Type: "RLIMIT_MEMLOCK", Soft: 5, Hard: 6},
	}}
	if got := specMemlock(ctr); got == nil || *got != (host.Rlimit{Soft: 5, Hard: 6}) {
		t.Errorf("specMemlock = %v, want the last one", got)
	}
	if got := specMemlock(&nri.Container{}); got != nil {
		t.Errorf("specMemlock of a container without limits = %v", got)
	}
}
