package target_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/memlock/kubevirt"
	"github.com/mooring-vm/mooring/shim/resize/target"
	"github.com/mooring-vm/mooring/shim/virt"
)

const (
	mi = 1 << 20
	gi = 1 << 30
)

var guest = target.Guest{Boot: gi, Block: 2 * mi, VCPUs: 2}

// launcher returns a launcher with these limits, in bytes and in thousandths of a CPU.
func launcher(memory uint64, cpu int64) podapi.Desired {
	return podapi.Desired{Launcher: "compute",
		Limits: podapi.Limits{Memory: int64(memory), CPU: cpu}}
}

// sized returns the launcher with a requested size.
func sized(d podapi.Desired, size api.Size) podapi.Desired {
	d.Size = size
	return d
}

func quota(period, quota int) *target.Bandwidth {
	return &target.Bandwidth{
		Period: time.Duration(period) * time.Microsecond,
		Quota:  time.Duration(quota) * time.Microsecond, FromLimit: true,
	}
}

func unlimited() *target.Bandwidth {
	return &target.Bandwidth{Period: 100 * time.Millisecond, Quota: virt.Unlimited, FromLimit: true}
}

func kubeVirt(t *testing.T, vm kubevirt.VM) target.Overhead {
	t.Helper()
	version, err := kubevirt.ParseVersion("1.7")
	if err != nil {
		t.Fatal(err)
	}
	return target.KubeVirt(vm, version, kubevirt.Ratio{})
}

func TestLimits(t *testing.T) {
	burstable := kubeVirt(t, kubevirt.VM{Memory: kubevirt.Memory{Request: 1}})
	guaranteed := kubeVirt(t, kubevirt.VM{
		Memory: kubevirt.Memory{Request: 1, Limit: 1},
		CPU:    kubevirt.CPU{RequestMilli: 1000, LimitMilli: 1000},
	})
	whole := launcher(4*gi, 4000)
	whole.Pod = podapi.Limits{Memory: 2 * gi, CPU: 1000}
	for _, c := range []struct {
		name     string
		desired  podapi.Desired
		overhead target.Overhead
		want     target.Target
	}{
		{"no limits", launcher(0, 0), target.Fixed(mi), target.Target{}},
		{"exact", launcher(2*gi+256*mi, 2000), target.Fixed(256 * mi),
			target.Target{Size: api.Size{Memory: 2 * gi, VCPUs: 2}, Overhead: 256 * mi,
				Limit: 2*gi + 256*mi, Bandwidth: unlimited()}},
		{"rounded down to the block", launcher(2*gi+257*mi, 0), target.Fixed(256 * mi),
			target.Target{Size: api.Size{Memory: 2 * gi}, Overhead: 256 * mi,
				Limit: 2*gi + 257*mi}},
		{"a block is counted from what it booted with", launcher(gi+3*mi+1, 0), target.Fixed(0),
			target.Target{Size: api.Size{Memory: gi + 2*mi}, Limit: gi + 3*mi + 1}},
		{"below what it booted with", launcher(gi-3*mi, 0), target.Fixed(0),
			target.Target{Size: api.Size{Memory: gi - 4*mi}, Limit: gi - 3*mi}},
		{"vCPUs rounded up, bandwidth spread", launcher(0, 1500), nil,
			target.Target{Size: api.Size{VCPUs: 2}, Bandwidth: quota(100000, 75000)}},
		{"a thousandth of a CPU", launcher(0, 1), nil,
			target.Target{Size: api.Size{VCPUs: 1}, Bandwidth: quota(1000000, 1000)}},
		{"the pod as a whole", whole, target.Fixed(gi),
			target.Target{Size: api.Size{Memory: gi, VCPUs: 1}, Overhead: gi, Limit: 2 * gi,
				Bandwidth: unlimited()}},
		// 292 MiB for processes, I/O thread, graphics and 4 vCPUs, and page tables of a 512th of
		// the guest's memory. KubeVirt adds 100 MiB for a Guaranteed pod.
		{"overhead at the new size, Burstable", launcher(4*gi+400*mi, 4000), burstable,
			target.Target{Size: api.Size{Memory: 4194 * mi, VCPUs: 4}, Overhead: 301 * mi,
				Limit: 4*gi + 400*mi, Bandwidth: unlimited()}},
		{"overhead at the new size, Guaranteed", launcher(4*gi+400*mi, 4000), guaranteed,
			target.Target{Size: api.Size{Memory: 4094 * mi, VCPUs: 4}, Overhead: 400 * mi,
				Limit: 4*gi + 400*mi, Bandwidth: unlimited()}},
	} {
		got, err := target.Compute(c.desired, guest, c.overhead)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		// package kubevirt tests the exact bytes
		if strings.Contains(c.name, "overhead at the new size") {
			got.Overhead = (got.Overhead + mi - 1) / mi * mi
		}
		c.want.Follows = target.Dimensions{Memory: c.want.Memory > 0, VCPUs: c.want.VCPUs > 0}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got)\n%s", c.name, diff)
		}
	}
}

// A guest grows by whole blocks above all its memory, and shrinks by its DIMMs from the last one.
func TestLimitsWithDIMMs(t *testing.T) {
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
		g := target.Guest{Boot: gi, DIMMs: c.dimms, Block: c.block, VCPUs: 1}
		got, err := target.Compute(launcher(c.limit, 0), g, target.Fixed(0))
		if err != nil || got.GuestMemory() != c.want {
			t.Errorf("%s: %d MiB, %v, want %d", c.name, got.GuestMemory()/mi, err, c.want/mi)
		}
	}
}

func TestRequestedSize(t *testing.T) {
	for _, c := range []struct {
		desired    podapi.Desired
		annotation map[string]string
		want       target.Target
	}{
		{launcher(4*gi, 4000), map[string]string{"memory": "2Gi", "vcpus": "2",
			"cpu-quota": "150%"},
			target.Target{Size: api.Size{Memory: 2 * gi, VCPUs: 2}, Overhead: gi, Limit: 4 * gi,
				Bandwidth: &target.Bandwidth{Period: 100 * time.Millisecond,
					Quota: 75 * time.Millisecond}}},
		{launcher(4*gi, 4000), map[string]string{"cpu-quota": "none"},
			target.Target{Size: api.Size{Memory: 3 * gi, VCPUs: 4}, Overhead: gi, Limit: 4 * gi,
				Bandwidth: &target.Bandwidth{Period: 100 * time.Millisecond,
					Quota: virt.Unlimited}}},
		{launcher(0, 0), map[string]string{"memory": "1Gi", "vcpus": "3"},
			target.Target{Size: api.Size{Memory: gi, VCPUs: 3}, Overhead: gi}},
		{launcher(0, 0), map[string]string{"cpu-quota": "50"},
			target.Target{Bandwidth: &target.Bandwidth{Period: 100 * time.Millisecond,
				Quota: 25 * time.Millisecond}}},
		{launcher(0, 2000), map[string]string{"vcpus": "2", "cpu-quota": "1200/2400MHz"},
			target.Target{Size: api.Size{VCPUs: 2},
				Bandwidth: &target.Bandwidth{Period: 100 * time.Millisecond,
					Quota: 50 * time.Millisecond}}},
		{launcher(0, 1000), map[string]string{"vcpus": "1", "cpu-quota": "1200/2400MHz"},
			target.Target{Size: api.Size{VCPUs: 1},
				Bandwidth: &target.Bandwidth{Period: 100 * time.Millisecond,
					Quota: 50 * time.Millisecond}}},
		{launcher(0, 1500), map[string]string{"vcpus": "2", "cpu-quota": "1800/2400MHz"},
			target.Target{Size: api.Size{VCPUs: 2},
				Bandwidth: &target.Bandwidth{Period: 100 * time.Millisecond,
					Quota: 75 * time.Millisecond, FromLimit: true}}},
		{launcher(0, 417), map[string]string{"vcpus": "1", "cpu-quota": "1000/2400MHz"},
			target.Target{Size: api.Size{VCPUs: 1},
				Bandwidth: &target.Bandwidth{Period: 100008 * time.Microsecond,
					Quota: 41670 * time.Microsecond, FromLimit: true}}},
		{launcher(0, 418), map[string]string{"vcpus": "1", "cpu-quota": "1000/2400MHz"},
			target.Target{Size: api.Size{VCPUs: 1},
				Bandwidth: &target.Bandwidth{Period: 100008 * time.Microsecond,
					Quota: 41670 * time.Microsecond}}},
		{launcher(0, 2000), map[string]string{"vcpus": "2", "cpu-quota": "3000/2400MHz"},
			target.Target{Size: api.Size{VCPUs: 2}, Bandwidth: unlimited()}},
		{launcher(0, 2000), map[string]string{"cpu-shares": "200"},
			target.Target{Size: api.Size{VCPUs: 2, CPUShares: 200}, Bandwidth: unlimited()}},
	} {
		got, err := target.Compute(sized(c.desired, size(t, c.annotation)), guest, target.Fixed(gi))
		c.want.CPUQuota = size(t, c.annotation).CPUQuota
		c.want.Follows = target.Dimensions{
			Memory: c.want.Memory > 0 && c.annotation["memory"] == "",
			VCPUs:  c.want.VCPUs > 0 && c.annotation["vcpus"] == "",
		}
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%v: %v (-want +got)\n%s", c.annotation, err, diff)
		}
	}
}

// size reads annotations whose keys lack ".resize.mooring.dev".
func size(t *testing.T, values map[string]string) api.Size {
	t.Helper()
	annotations := map[string]string{}
	for key, value := range values {
		annotations[key+".resize.mooring.dev"] = value
	}
	s, err := api.ParseSize(annotations, "compute")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestComputeRefuses(t *testing.T) {
	outside := launcher(0, 1500)
	outside.Outside = true
	for _, c := range []struct {
		desired    podapi.Desired
		annotation map[string]string
		want       []string
	}{
		{launcher(4*gi, 1500), map[string]string{"memory": "3075Mi", "vcpus": "3",
			"cpu-quota": "151%"}, []string{
			`annotation vcpus.resize.mooring.dev: "3": want at most 2, which is the CPU limit ` +
				`rounded up`,
			`annotation memory.resize.mooring.dev: "3075Mi": want at most 3Gi: the memory limit ` +
				`is 4Gi, and the launcher needs the rest`,
			`annotation cpu-quota.resize.mooring.dev: "151%": want at most 150%, which is the ` +
				`CPU limit`,
		}},
		{launcher(gi, 0), nil, []string{"memory limit: 1Gi leaves nothing to the guest: the " +
			"launcher needs 1Gi beside it"}},
		{launcher(0, 0), map[string]string{"vcpus": "11", "cpu-quota": "1%"},
			[]string{"less than 0.1 % of a CPU for each vCPU"}},
		{launcher(0, 1500), map[string]string{"vcpus": "2", "cpu-quota": "2000/2400MHz"}, []string{
			`annotation cpu-quota.resize.mooring.dev: "2000/2400MHz": want at most 150% for 2 ` +
				`vCPUs together, which is the CPU limit`,
		}},
		{launcher(0, 0), map[string]string{"cpu-quota": "1/2400MHz"},
			[]string{`"1/2400MHz": `, "less than 0.1 % of a CPU for each vCPU"}},
		{outside, map[string]string{"cpu-quota": "none"},
			[]string{`annotation cpu-quota.resize.mooring.dev: "none": the VM runs outside`,
				"at most 150%"}},
		{launcher(0, -1), nil, []string{`limits of container "compute": -1: want no less than 0`}},
	} {
		got, err := target.Compute(sized(c.desired, size(t, c.annotation)), guest, target.Fixed(gi))
		if err == nil || !got.SameSize(target.Target{}) {
			t.Errorf("%+v, %v: got %+v, %v", c.desired, c.annotation, got, err)
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
	for _, size := range []api.Size{{}, {Memory: gi}} {
		if _, err := target.Compute(sized(launcher(2*gi, 0), size), guest,
			overhead); !errors.Is(err, bad) {
			t.Errorf("got %v", err)
		}
	}
	if _, err := kubeVirt(t, kubevirt.VM{})(1<<63, 1); err == nil {
		t.Error("no error for a guest beyond an int64")
	}
}

// The guest keeps each dimension that the pod does not ask for, even above the limits. A quota is
// spread over the future vCPUs, not over the CPU limit.
func TestGuestKeepsWhatThePodDoesNotAskFor(t *testing.T) {
	keeps := guest
	keeps.Keeps = true
	for _, c := range []struct {
		desired podapi.Desired
		size    api.Size
		want    target.Target
	}{
		{launcher(mi, 8000), api.Size{}, target.Target{}},
		{launcher(mi, 8000), api.Size{VCPUs: 3}, target.Target{}},
		{launcher(mi, 8000), api.Size{CPUQuota: api.CPUQuota{Percent: 150}},
			target.Target{Bandwidth: &target.Bandwidth{Period: 100 * time.Millisecond,
				Quota: 75 * time.Millisecond}}},
		{launcher(4*gi, 8000), api.Size{Memory: 2 * gi},
			target.Target{Overhead: gi, Limit: 4 * gi}},
	} {
		c.want.Size = c.size
		got, err := target.Compute(sized(c.desired, c.size), keeps, target.Fixed(gi))
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%+v: %v (-want +got)\n%s", c.size, err, diff)
		}
	}
}

func TestSameSize(t *testing.T) {
	a := target.Target{
		Generation: 1, Size: api.Size{VCPUs: 2, CPUQuota: api.CPUQuota{Percent: 100}}, Limit: gi,
		Bandwidth: &target.Bandwidth{Period: 100 * time.Millisecond, Quota: 50 * time.Millisecond},
	}
	b := a
	b.Generation, b.Bandwidth = 2, new(*a.Bandwidth)
	b.CPUQuota = api.CPUQuota{MHz: 1200, OfHost: 2400} // half a CPU for each of 2 vCPUs, too
	if !a.SameSize(b) {
		t.Errorf("%+v differs from %+v", a, b)
	}
	for name, change := range map[string]func(*target.Target){
		"vCPUs":     func(t *target.Target) { t.VCPUs++ },
		"limit":     func(t *target.Target) { t.Limit++ },
		"bandwidth": func(t *target.Target) { t.Bandwidth = nil },
	} {
		other := b
		if change(&other); a.SameSize(other) {
			t.Errorf("another %s is the same", name)
		}
	}
}
