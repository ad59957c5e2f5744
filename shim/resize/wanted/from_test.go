package wanted_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/memlock/kubevirt"
	"github.com/mooring-vm/mooring/shim/resize/wanted"
	"github.com/mooring-vm/mooring/shim/virt"
)

const (
	mi = uint64(1) << 20
	gi = uint64(1) << 30
)

var guest = wanted.Guest{Boot: gi, Block: 2 * mi, VCPUs: 2}

func launcher(memory uint64, cpu int64) wanted.Pod {
	return wanted.Pod{Launcher: "compute", Containers: []wanted.Container{{Name: "compute", Memory: int64(memory), CPU: cpu}}}
}

func quota(period, quota int) *wanted.Bandwidth {
	return &wanted.Bandwidth{
		Period: time.Duration(period) * time.Microsecond, Quota: time.Duration(quota) * time.Microsecond, FromLimit: true,
	}
}

func unlimited() *wanted.Bandwidth {
	return &wanted.Bandwidth{Period: 100 * time.Millisecond, Quota: virt.Unlimited, FromLimit: true}
}

func kubeVirt(t *testing.T, vm kubevirt.VM) wanted.Overhead {
	t.Helper()
	version, err := kubevirt.ParseVersion("1.7")
	if err != nil {
		t.Fatal(err)
	}
	return wanted.KubeVirt(vm, version, kubevirt.Ratio{})
}

func TestFromLimits(t *testing.T) {
	burstable := kubeVirt(t, kubevirt.VM{Memory: kubevirt.Memory{Request: 1}})
	guaranteed := kubeVirt(t, kubevirt.VM{
		Memory: kubevirt.Memory{Request: 1, Limit: 1}, CPU: kubevirt.CPU{RequestMilli: 1000, LimitMilli: 1000},
	})
	several := launcher(2*gi, 1500)
	several.Containers = append(several.Containers, wanted.Container{Name: "sidecar", Memory: int64(gi), CPU: 500}, wanted.Container{Name: "other"})
	whole := launcher(4*gi, 4000)
	whole.Memory, whole.CPU = int64(2*gi), 1000
	for _, c := range []struct {
		name     string
		pod      wanted.Pod
		overhead wanted.Overhead
		want     wanted.Size
	}{
		{"no limits", launcher(0, 0), wanted.Fixed(mi), wanted.Size{}},
		{"exact", launcher(2*gi+256*mi, 2000), wanted.Fixed(256 * mi),
			wanted.Size{Memory: 2 * gi, Overhead: 256 * mi, Limit: 2*gi + 256*mi, VCPUs: 2, Bandwidth: unlimited()}},
		{"rounded down to the block", launcher(2*gi+257*mi, 0), wanted.Fixed(256 * mi),
			wanted.Size{Memory: 2 * gi, Overhead: 256 * mi, Limit: 2*gi + 257*mi}},
		{"a block is counted from what it booted with", launcher(gi+3*mi+1, 0), wanted.Fixed(0),
			wanted.Size{Memory: gi + 2*mi, Limit: gi + 3*mi + 1}},
		{"below what it booted with", launcher(gi-3*mi, 0), wanted.Fixed(0), wanted.Size{Memory: gi - 4*mi, Limit: gi - 3*mi}},
		{"vCPUs rounded up, bandwidth spread", launcher(0, 1500), nil, wanted.Size{VCPUs: 2, Bandwidth: quota(100000, 75000)}},
		{"a thousandth of a CPU", launcher(0, 1), nil, wanted.Size{VCPUs: 1, Bandwidth: quota(1000000, 1000)}},
		{"only the launcher counts", several, wanted.Fixed(gi),
			wanted.Size{Memory: gi, Overhead: gi, Limit: 2 * gi, VCPUs: 2, Bandwidth: quota(100000, 75000)}},
		{"the pod as a whole", whole, wanted.Fixed(gi), wanted.Size{Memory: gi, Overhead: gi, Limit: 2 * gi, VCPUs: 1, Bandwidth: unlimited()}},
		// 292 MiB for processes, I/O thread, graphics and 4 vCPUs, and a 512th of the guest's
		// thousands of bytes; 100 MiB more where the pod is Guaranteed.
		{"overhead at the new size, Burstable", launcher(4*gi+400*mi, 4000), burstable,
			wanted.Size{Memory: 4194 * mi, Overhead: 301 * mi, Limit: 4*gi + 400*mi, VCPUs: 4, Bandwidth: unlimited()}},
		{"overhead at the new size, Guaranteed", launcher(4*gi+400*mi, 4000), guaranteed,
			wanted.Size{Memory: 4094 * mi, Overhead: 400 * mi, Limit: 4*gi + 400*mi, VCPUs: 4, Bandwidth: unlimited()}},
	} {
		got, err := wanted.From(c.pod, guest, c.overhead, api.Request{})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if strings.Contains(c.name, "overhead at the new size") { // to the byte it is kubevirt's own test
			got.Overhead = (got.Overhead + mi - 1) / mi * mi
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", c.name, diff)
		}
	}
}

// A guest grows by whole blocks above all that it has, and shrinks by the DIMMs that there
// are, the last one first.
func TestFromLimitsWithDIMMs(t *testing.T) {
	some := []uint64{512 * mi, 256 * mi} // above 1Gi
	for _, c := range []struct {
		name  string
		dimms []uint64
		block uint64
		limit uint64
		want  uint64
	}{
		{"none, more", nil, 128 * mi, 2*gi + 50*mi, 2 * gi},
		{"none, exact", nil, 128 * mi, gi, gi},
		{"more", some, 128 * mi, 2*gi + 50*mi, 2 * gi},
		{"as much", some, 128 * mi, 1792 * mi, 1792 * mi},
		{"too little for another", some, 128 * mi, 1919 * mi, 1792 * mi},
		{"less, between the sizes", some, 128 * mi, 1791 * mi, 1536 * mi},
		{"less, exact", some, 128 * mi, 1536 * mi, 1536 * mi},
		{"less, and both", some, 128 * mi, 1535 * mi, gi},
		{"below what it booted with", some, 128 * mi, 1000 * mi, 896 * mi},
		{"of an odd size, more", []uint64{100 * mi}, 128 * mi, gi + 300*mi, gi + 228*mi},
		{"with virtio-mem, more", some, 2 * mi, 1801 * mi, 1800 * mi},
		{"with virtio-mem, less than the DIMMs", some, 2 * mi, 1791 * mi, 1536 * mi},
	} {
		g := wanted.Guest{Boot: gi, DIMMs: c.dimms, Block: c.block, VCPUs: 1}
		got, err := wanted.From(launcher(c.limit, 0), g, wanted.Fixed(0), api.Request{})
		if err != nil || got.Memory != c.want {
			t.Errorf("%s: %d MiB, %v, want %d", c.name, got.Memory/mi, err, c.want/mi)
		}
	}
}

func TestFromAnnotations(t *testing.T) {
	for _, c := range []struct {
		pod        wanted.Pod
		annotation map[string]string
		want       wanted.Size
	}{
		{launcher(4*gi, 4000), map[string]string{"memory": "2Gi", "vcpus": "2", "cpu-quota": "150%"},
			wanted.Size{Memory: 2 * gi, Overhead: gi, Limit: 4 * gi, VCPUs: 2, Bandwidth: &wanted.Bandwidth{Period: 100 * time.Millisecond, Quota: 75 * time.Millisecond}}},
		{launcher(4*gi, 4000), map[string]string{"cpu-quota": "none"},
			wanted.Size{Memory: 3 * gi, Overhead: gi, Limit: 4 * gi, VCPUs: 4, Bandwidth: &wanted.Bandwidth{Period: 100 * time.Millisecond, Quota: virt.Unlimited}}},
		{launcher(0, 0), map[string]string{"memory": "1000M", "vcpus": "3"}, wanted.Size{Memory: 1e9, Overhead: gi, VCPUs: 3}},
		{launcher(0, 0), map[string]string{"cpu-quota": "50"},
			wanted.Size{Bandwidth: &wanted.Bandwidth{Period: 100 * time.Millisecond, Quota: 25 * time.Millisecond}}},
		{launcher(0, 2000), map[string]string{"vcpus": "2", "cpu-quota": "1200/2400MHz"},
			wanted.Size{VCPUs: 2, Bandwidth: &wanted.Bandwidth{Period: 100 * time.Millisecond, Quota: 50 * time.Millisecond}}},
		{launcher(0, 1000), map[string]string{"vcpus": "1", "cpu-quota": "1200/2400MHz"},
			wanted.Size{VCPUs: 1, Bandwidth: &wanted.Bandwidth{Period: 100 * time.Millisecond, Quota: 50 * time.Millisecond}}},
		{launcher(0, 1500), map[string]string{"vcpus": "2", "cpu-quota": "1800/2400MHz"},
			wanted.Size{VCPUs: 2, Bandwidth: &wanted.Bandwidth{Period: 100 * time.Millisecond, Quota: 75 * time.Millisecond, FromLimit: true}}},
		{launcher(0, 417), map[string]string{"vcpus": "1", "cpu-quota": "1000/2400MHz"},
			wanted.Size{VCPUs: 1, Bandwidth: &wanted.Bandwidth{Period: 100008 * time.Microsecond, Quota: 41670 * time.Microsecond, FromLimit: true}}},
		{launcher(0, 418), map[string]string{"vcpus": "1", "cpu-quota": "1000/2400MHz"},
			wanted.Size{VCPUs: 1, Bandwidth: &wanted.Bandwidth{Period: 100008 * time.Microsecond, Quota: 41670 * time.Microsecond}}},
		{launcher(0, 2000), map[string]string{"vcpus": "2", "cpu-quota": "3000/2400MHz"}, wanted.Size{VCPUs: 2, Bandwidth: unlimited()}},
		{launcher(0, 2000), map[string]string{"cpu-shares": "200"}, wanted.Size{VCPUs: 2, Bandwidth: unlimited(), Shares: 200}},
	} {
		got, err := wanted.From(c.pod, guest, wanted.Fixed(gi), request(t, c.annotation))
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%v: %v (-want +got)\n%s", c.annotation, err, diff)
		}
	}
}

func request(t *testing.T, values map[string]string) api.Request {
	t.Helper()
	annotations := map[string]string{}
	for key, value := range values {
		annotations[key+".resize.mooring.dev"] = value
	}
	r, err := api.Parse(annotations, "compute")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestFromRefuses(t *testing.T) {
	outside := launcher(0, 1500)
	outside.Outside = true
	for _, c := range []struct {
		pod        wanted.Pod
		annotation map[string]string
		want       []string
	}{
		{launcher(4*gi, 1500), map[string]string{"memory": "3073Mi", "vcpus": "3", "cpu-quota": "151%"}, []string{
			`annotation vcpus.resize.mooring.dev: "3": want at most 2, which is the CPU limit rounded up`,
			`annotation memory.resize.mooring.dev: "3073Mi": want at most 3Gi: the memory limit is 4Gi, and the launcher needs the rest`,
			`annotation cpu-quota.resize.mooring.dev: "151%": want at most 150%, which is the CPU limit`,
		}},
		{launcher(gi, 0), nil, []string{"memory limit: 1Gi leaves nothing to the guest: the launcher needs 1Gi beside it"}},
		{launcher(0, 0), map[string]string{"vcpus": "11", "cpu-quota": "1%"}, []string{"less than 0.1 % of a CPU for each vCPU"}},
		{launcher(0, 1500), map[string]string{"vcpus": "2", "cpu-quota": "2000/2400MHz"}, []string{
			`annotation cpu-quota.resize.mooring.dev: "2000/2400MHz": want at most 150% for 2 vCPUs together, which is the CPU limit`,
		}},
		{launcher(0, 0), map[string]string{"cpu-quota": "1/2400MHz"}, []string{`"1/2400MHz": `, "less than 0.1 % of a CPU for each vCPU"}},
		{outside, map[string]string{"cpu-quota": "none"}, []string{`annotation cpu-quota.resize.mooring.dev: "none": the VM runs outside`, "at most 150%"}},
		{launcher(0, -1), nil, []string{`limits of container "compute": -1: want no less than 0`}},
		{wanted.Pod{Launcher: "x"}, nil, []string{`no container "x"`}},
	} {
		got, err := wanted.From(c.pod, guest, wanted.Fixed(gi), request(t, c.annotation))
		if err == nil || got != (wanted.Size{}) {
			t.Errorf("%+v, %v: got %+v, %v", c.pod, c.annotation, got, err)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		}
	}
}

func TestOverheadFails(t *testing.T) {
	bad := errors.New("bad")
	overhead := func(uint64, int) (uint64, error) { return 0, bad }
	for _, r := range []api.Request{{}, request(t, map[string]string{"memory": "1Gi"})} {
		if _, err := wanted.From(launcher(2*gi, 0), guest, overhead, r); !errors.Is(err, bad) {
			t.Errorf("got %v", err)
		}
	}
	if _, err := kubeVirt(t, kubevirt.VM{})(1<<63, 1); err == nil {
		t.Error("a guest beyond an int64 is taken")
	}
}

// What nobody asks for stays, also where the limits leave no room for it. A quota is spread
// over the vCPUs that there will be, not over those that the limit leaves room for.
func TestFromForAGuestThatKeepsWhatItHas(t *testing.T) {
	keeps := guest
	keeps.Keeps = true
	vcpus, memory := 3, int64(2*gi)
	for _, c := range []struct {
		pod     wanted.Pod
		request api.Request
		want    wanted.Size
	}{
		{launcher(mi, 8000), api.Request{}, wanted.Size{}},
		{launcher(mi, 8000), api.Request{VCPUs: &vcpus}, wanted.Size{VCPUs: 3}},
		{launcher(mi, 8000), api.Request{CPUQuota: &api.CPUQuota{Percent: 150}},
			wanted.Size{Bandwidth: &wanted.Bandwidth{Period: 100 * time.Millisecond, Quota: 75 * time.Millisecond}}},
		{launcher(4*gi, 8000), api.Request{Memory: &memory}, wanted.Size{Memory: 2 * gi, Overhead: gi, Limit: 4 * gi}},
	} {
		got, err := wanted.From(c.pod, keeps, wanted.Fixed(gi), c.request)
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%+v: %v (-want +got)\n%s", c.request, err, diff)
		}
	}
}
