package plugin_test

import (
	"testing"

	nri "github.com/containerd/nri/pkg/api"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/lifecycle/host"
)

func TestCPUsFromTheRuntime(t *testing.T) {
	for name, test := range map[string]struct {
		cpu  *nri.LinuxCPU
		want host.Limit
	}{
		"nothing": {nil, 4*gi + 297*mi},
		"limit": {&nri.LinuxCPU{Quota: nri.Int64(350000), Period: nri.UInt64(100000)},
			4*gi + 321*mi},
		"no limit": {&nri.LinuxCPU{Quota: nri.Int64(-1), Period: nri.UInt64(100000)},
			4*gi + 297*mi},
		"no period":      {&nri.LinuxCPU{Quota: nri.Int64(350000)}, 4*gi + 297*mi},
		"exclusive CPUs": {&nri.LinuxCPU{Quota: nri.Int64(-1), Cpus: "0-2,7"}, 4*gi + 321*mi},
		"request":        {&nri.LinuxCPU{Shares: nri.UInt64(4096)}, 4*gi + 321*mi},
		"the largest": {&nri.LinuxCPU{Quota: nri.Int64(200000), Period: nri.UInt64(100000),
			Cpus: "0", Shares: nri.UInt64(4096)}, 4*gi + 321*mi},
		"malformed cpuset": {&nri.LinuxCPU{Cpus: "x"}, 4*gi + 297*mi},
	} {
		n := newNode(t, policy.Enforce)
		pod := newPod("u1", map[string]string{api.RequiresLockKey: "true",
			api.GuestMemoryKey: "4Gi"})
		c := newContainer(pod, "compute")
		c.Linux.Resources = &nri.LinuxResources{Cpu: test.cpu}
		adjustment, err := n.create(pod, c)
		must(t, err)
		if got := adjustment.GetRlimits()[0].GetHard(); got != uint64(test.want) {
			t.Errorf("%s: got %d, want %d", name, got, test.want)
		}
	}
}
