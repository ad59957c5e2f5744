package plugin_test

import (
	"strings"
	"testing"

	nri "github.com/containerd/nri/pkg/api"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/lifecycle"
	"github.com/mooring-vm/mooring/plugin"
)

// The launcher's overhead counts beside the guest's memory: KubeVirt's figure where
// it wrote one, or else an estimate, which has 8 MiB for each CPU.
func TestOverhead(t *testing.T) {
	asks := func(more ...string) map[string]string {
		annotations := map[string]string{api.RequiresLockKey: "true", api.GuestMemoryKey: "4Gi"}
		for i := 0; i < len(more); i += 2 {
			annotations[more[i]] = more[i+1]
		}
		return annotations
	}
	for name, test := range map[string]struct {
		annotations  map[string]string
		cpus         int64
		architecture string
		want         lifecycle.Limit
	}{
		"estimated":                   {asks(), 0, "amd64", 4*gi + 297*mi}, // 288 MiB, 8 MiB and a byte of page tables
		"for each CPU":                {asks(), 3500, "amd64", 4*gi + 321*mi},
		"on Arm":                      {asks(), 0, "arm64", 4*gi + 425*mi},
		"elsewhere":                   {asks(), 0, "riscv64", 4*gi + 297*mi},
		"as KubeVirt wrote":           {asks(plugin.OverheadKey, "283115521"), 3500, "amd64", 4*gi + 283115521},
		"libvirt's sum is larger":     {asks(api.DevicesKey, "vfio=1"), 0, "amd64", 5 * gi},
		"KubeVirt's with VFIO is":     {asks(api.DevicesKey, "vfio=1", plugin.OverheadKey, "1356857344"), 0, "amd64", 4*gi + 1356857344},
		"a memory limit includes it":  {map[string]string{api.RequiresLockKey: "true", plugin.OverheadKey: "283115521"}, 0, "", 2 * gi},
		"nothing is asked, or looked": {map[string]string{plugin.OverheadKey: "x"}, 0, "", 0},
		"no lock is asked for":        {map[string]string{api.GuestMemoryKey: "4Gi", plugin.OverheadKey: "x"}, 0, "", 0},
	} {
		f := facts("trusted", test.annotations)
		f.CPUs, f.Architecture = test.cpus, test.architecture
		d := plugin.Decide(parsePolicy(t, policy.Enforce), f)
		if d.Refusal != nil {
			t.Errorf("%s: %v", name, d.Refusal)
			continue
		}
		var got lifecycle.Limit
		if d.Memlock != nil {
			got = *d.Memlock
		}
		if got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}

func TestOverheadThatIsNoNumber(t *testing.T) {
	for _, value := range []string{"", "283Mi", "-1", "1e9", "99999999999999999999"} {
		f := facts("trusted", map[string]string{api.RequiresLockKey: "true", api.GuestMemoryKey: "4Gi", plugin.OverheadKey: value})
		d := plugin.Decide(parsePolicy(t, policy.Enforce), f)
		if d.Refusal == nil || !strings.Contains(d.Refusal.Message, plugin.OverheadKey+`: "`+value+`": want KubeVirt's number of bytes`) {
			t.Errorf("%q: %v", value, d.Refusal)
		}
	}
}

// What says how many CPUs a launcher has.
func TestCPUsFromTheRuntime(t *testing.T) {
	for name, test := range map[string]struct {
		cpu  *nri.LinuxCPU
		want lifecycle.Limit
	}{
		"nothing":          {nil, 4*gi + 297*mi},
		"limit":            {&nri.LinuxCPU{Quota: nri.Int64(350000), Period: nri.UInt64(100000)}, 4*gi + 321*mi},
		"no limit":         {&nri.LinuxCPU{Quota: nri.Int64(-1), Period: nri.UInt64(100000)}, 4*gi + 297*mi},
		"no period":        {&nri.LinuxCPU{Quota: nri.Int64(350000)}, 4*gi + 297*mi},
		"exclusive CPUs":   {&nri.LinuxCPU{Quota: nri.Int64(-1), Cpus: "0-2,7"}, 4*gi + 321*mi},
		"request":          {&nri.LinuxCPU{Shares: nri.UInt64(4096)}, 4*gi + 321*mi},
		"the most of them": {&nri.LinuxCPU{Quota: nri.Int64(200000), Period: nri.UInt64(100000), Cpus: "0", Shares: nri.UInt64(4096)}, 4*gi + 321*mi},
		"a strange cpuset": {&nri.LinuxCPU{Cpus: "x"}, 4*gi + 297*mi},
	} {
		n := newNode(t, policy.Enforce)
		pod := newPod("u1", map[string]string{api.RequiresLockKey: "true", api.GuestMemoryKey: "4Gi"})
		c := newContainer(pod, "compute")
		c.Linux.Resources = &nri.LinuxResources{Cpu: test.cpu}
		adjustment, err := n.create(pod, c)
		must(t, err)
		if got := adjustment.GetRlimits()[0].GetHard(); got != uint64(test.want) {
			t.Errorf("%s: got %d, want %d", name, got, test.want)
		}
	}
}
