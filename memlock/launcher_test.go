package memlock

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/api"
)

const (
	mi = int64(1) << 20
	gi = int64(1) << 30
)

// request parses annotations, given as "base=value".
func request(t *testing.T, annotations ...string) api.Request {
	t.Helper()
	m := map[string]string{}
	for _, a := range annotations {
		key, value, _ := strings.Cut(a, "=")
		if !strings.Contains(key, ".") {
			key += ".memlock"
		}
		m[key+".mooring.dev"] = value
	}
	r, err := api.Parse(m, "compute")
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestForLauncher(t *testing.T) {
	for _, c := range []struct {
		annotations []string
		limit       int64
		want        []Term
	}{
		{[]string{"requires-lock=true"}, 5 * gi, []Term{{"container memory limit", 5 * gi}}},
		{[]string{"requires-lock=true", "value=0"}, 5 * gi,
			[]Term{{"container memory limit", 5 * gi}}},
		{[]string{"requires-lock=true", "value=1Gi"}, 5 * gi,
			[]Term{{"container memory limit", 5 * gi}, {"value", gi}}},
		{[]string{"requires-lock=true", "guest-memory=4Gi", "value=1Gi"}, 5 * gi,
			[]Term{{"guest memory", 4 * gi}, {"value", gi}}},
		{[]string{"requires-lock=true", "guest-memory=4Gi"}, -1, []Term{{"guest memory", 4 * gi}}},
		{[]string{"devices=vfio=1", "guest-memory=4Gi"}, 0,
			[]Term{{"guest memory", 4 * gi}, {"libvirt's allowance for device I/O", gi}}},
		{[]string{"devices=vfio=1", "guest-memory=4Gi", "memory.resize=8Gi"}, 0,
			[]Term{{"resized guest memory", 8 * gi}, {"libvirt's allowance for device I/O", gi}}},
		{[]string{"devices=vfio=1", "guest-memory=4Gi", "memory.resize=2Gi"}, 0,
			[]Term{{"guest memory", 4 * gi}, {"libvirt's allowance for device I/O", gi}}},
		{[]string{"requires-lock=true", "guest-memory=4Gi", "memory.resize=8Gi"}, 0,
			[]Term{{"resized guest memory", 8 * gi}}},
		{[]string{"devices=vfio=1"}, 5 * gi, []Term{{"container memory limit", 5 * gi},
			{"libvirt's allowance for device I/O", gi}}},
		{[]string{"devices=vfio=4", "guest-memory=4Gi"}, 0,
			[]Term{{"guest memory", 4 * gi}, {"libvirt's allowance for device I/O", gi}}},
		{[]string{"devices=vfio=4,iommu", "guest-memory=4Gi"}, 0,
			[]Term{{"4 x guest memory", 16 * gi}, {"libvirt's allowance for device I/O", gi}}},
		{[]string{"devices=vdpa=2,nvme=3", "guest-memory=4Gi"}, 0,
			[]Term{{"5 x guest memory", 20 * gi}, {"libvirt's allowance for device I/O", gi}}},
		{[]string{"devices=vfio=2,vdpa=1,iommu", "guest-memory=4Gi", "value=512Mi"}, 0,
			[]Term{{"3 x guest memory", 12 * gi}, {"libvirt's allowance for device I/O", gi},
				{"value", 512 * mi}}},
		{[]string{"devices=vfio=2,vdpa=1", "guest-memory=4Gi"}, 0,
			[]Term{{"2 x guest memory", 8 * gi}, {"libvirt's allowance for device I/O", gi}}},
		{[]string{"devices=vfio=1", "requires-lock=false", "guest-memory=4Gi", "value=1Gi"}, 0,
			[]Term{{"guest memory", 4 * gi}, {"libvirt's allowance for device I/O", gi},
				{"value", gi}}},
		{[]string{"devices=vdpa=1,iommu", "guest-memory=1Gi"}, 0,
			[]Term{{"guest memory", gi}, {"libvirt's allowance for device I/O", gi}}},
	} {
		got, err := ForLauncher(Input{Request: request(t, c.annotations...),
			ContainerMemoryLimit: c.limit})
		var total int64
		for _, term := range c.want {
			total += term.Bytes
		}
		want := Result{Required: true, Bytes: total, Terms: c.want, Reason: got.Reason}
		if got.Terms[min(1, len(got.Terms)-1)].Name == "libvirt's allowance for device I/O" {
			want.Libvirt = total
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil || got.Reason == "" {
			t.Errorf("%v: %v (-want +got)\n%s", c.annotations, err, diff)
		}
	}
}

// The overhead adds to the guest's memory, but not to a memory limit, which includes it.
func TestForLauncherWithOverhead(t *testing.T) {
	overhead := []Term{{"overhead", 300 * mi}}
	for _, c := range []struct {
		annotations []string
		want        []Term
	}{
		{[]string{"requires-lock=true", "guest-memory=4Gi"},
			[]Term{{"guest memory", 4 * gi}, {"overhead", 300 * mi}}},
		{[]string{"requires-lock=true"}, []Term{{"container memory limit", 5 * gi}}},
		{[]string{"devices=vfio=1", "guest-memory=4Gi"},
			[]Term{{"guest memory", 4 * gi}, {"libvirt's allowance for device I/O", gi}}},
		{[]string{"devices=vdpa=2", "guest-memory=4Gi", "value=1Gi"},
			[]Term{{"2 x guest memory", 8 * gi}, {"libvirt's allowance for device I/O", gi},
				{"value", gi}}},
	} {
		got, err := ForLauncher(Input{Request: request(t, c.annotations...),
			ContainerMemoryLimit: 5 * gi, Overhead: overhead})
		if diff := cmp.Diff(c.want, got.Terms); diff != "" || err != nil {
			t.Errorf("%v: %v (-want +got)\n%s", c.annotations, err, diff)
		}
	}
	large := []Term{{"overhead", 2 * gi}}
	got, err := ForLauncher(Input{Request: request(t, "devices=vfio=1", "guest-memory=4Gi"),
		Overhead: large})
	if err != nil || got.Bytes != 6*gi || got.Libvirt != 5*gi {
		t.Errorf("got %+v, %v, want the overhead, which is more than libvirt's allowance", got, err)
	}
}

func TestForLauncherUnlimited(t *testing.T) {
	for _, annotations := range [][]string{
		{"requires-lock=true", "value=unlimited"},
		{"devices=vfio=1", "value=unlimited"},
		{"devices=vfio=1", "value=unlimited", "requires-lock=false",
			"guest-memory=9223372036854775807"},
	} {
		got, err := ForLauncher(Input{Request: request(t, annotations...)})
		want := Result{Required: true, Unlimited: true, Reason: got.Reason}
		if diff := cmp.Diff(want, got); diff != "" || err != nil ||
			!strings.Contains(got.Reason, "unlimited") {
			t.Errorf("%v: %v, %q (-want +got)\n%s", annotations, err, got.Reason, diff)
		}
	}
}

func TestForLauncherNotRequired(t *testing.T) {
	for _, c := range []struct {
		annotations []string
		reason      string
	}{
		{nil, "nothing asks for it"},
		{[]string{"guest-memory=4Gi"}, "nothing asks for it"},
		{[]string{"requires-lock=false"}, "is false, and no device"},
		{[]string{"requires-lock=false", "value=1Gi"}, "is false, and no device"},
		{[]string{"value=1Gi"}, "value.memlock.mooring.dev is given, but neither"},
		{[]string{"value=unlimited"}, "value.memlock.mooring.dev is given, but neither"},
	} {
		got, err := ForLauncher(Input{Request: request(t, c.annotations...),
			ContainerMemoryLimit: gi})
		if diff := cmp.Diff(Result{Reason: got.Reason}, got); diff != "" || err != nil ||
			!strings.Contains(got.Reason, c.reason) {
			t.Errorf("%v: %v, %q, want %q: %s", c.annotations, err, got.Reason, c.reason, diff)
		}
	}
}

func TestForLauncherRefuses(t *testing.T) {
	for _, c := range []struct {
		annotations []string
		limit       int64
		want        string
	}{
		{[]string{"requires-lock=true"}, 0, "add the annotation guest-memory.memlock.mooring.dev " +
			"or give the container a memory limit"},
		{[]string{"devices=vfio=1", "value=1Gi"}, -1, "add the annotation"},
		{[]string{"requires-lock=true", "value=9223372036854775807"}, 1,
			"9223372036854775807 more for value is more than"},
		{[]string{"devices=vfio=1", "guest-memory=9223372036854775807"}, 0,
			"1Gi more for libvirt's allowance"},
		{[]string{"devices=vdpa=2", "guest-memory=4Ei"}, 0, "2 x 4Ei (guest memory) is more than"},
		{[]string{"devices=vdpa=1024,nvme=1024,vfio=1024,iommu"}, math.MaxInt64, "3072 x "},
	} {
		got, err := ForLauncher(Input{Request: request(t, c.annotations...),
			ContainerMemoryLimit: c.limit})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got %+v, %v, want %q", c.annotations, got, err, c.want)
		}
		if diff := cmp.Diff(Result{}, got); diff != "" {
			t.Errorf("%v: a result beside the error: %s", c.annotations, diff)
		}
	}
}

// drawInput draws any result of api.Parse.
func drawInput(t *rapid.T) Input {
	count := rapid.IntRange(0, api.MaxDevices)
	bytes := rapid.Int64Min(0)
	in := Input{ContainerMemoryLimit: rapid.Int64Min(-1).Draw(t, "limit")}
	in.Request.RequiresLock = rapid.Ptr(rapid.Bool(), true).Draw(t, "requires-lock")
	in.Request.GuestMemory = rapid.Ptr(rapid.Int64Min(1), true).Draw(t, "guest-memory")
	if rapid.Bool().Draw(t, "has value") {
		in.Request.Value = &api.Lockable{Bytes: bytes.Draw(t, "value")}
	}
	d := api.Devices{VFIO: count.Draw(t, "vfio"), VDPA: count.Draw(t, "vdpa"),
		NVMe: count.Draw(t, "nvme")}
	d.IOMMU = d.Any() && rapid.Bool().Draw(t, "iommu")
	in.Request.Devices = d
	return in
}

// Terms are never negative, and their sum is the limit.
func TestTermsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		got, err := ForLauncher(in)
		if err != nil {
			return
		}
		var total int64
		for _, term := range got.Terms {
			if total += term.Bytes; term.Bytes < 0 || total < 0 {
				t.Fatalf("%+v: %+v", in, got)
			}
		}
		if total != got.Bytes || got.Required != (len(got.Terms) > 0) || got.Reason == "" {
			t.Fatalf("%+v: %+v", in, got)
		}
	})
}

// Another device, more memory or a higher value never lowers the limit.
func TestMoreNeverGivesLess(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		small := drawInput(t)
		large := small
		switch rapid.SampledFrom([]string{"vfio", "vdpa", "nvme", "value", "limit"}).Draw(
			t, "more") {
		case "vfio":
			large.Request.Devices.VFIO++
		case "vdpa":
			large.Request.Devices.VDPA++
		case "nvme":
			large.Request.Devices.NVMe++
		case "value":
			large.Request.Value = &api.Lockable{Bytes: math.MaxInt64 / 2}
			if small.Request.Value != nil && small.Request.Value.Bytes > math.MaxInt64/2 {
				return
			}
		case "limit":
			large.ContainerMemoryLimit = max(small.ContainerMemoryLimit, math.MaxInt64/4096)
		}
		before, err := ForLauncher(small)
		if err != nil {
			return
		}
		after, err := ForLauncher(large)
		if err == nil && (after.Bytes < before.Bytes || before.Required && !after.Required) {
			t.Fatalf("%+v gives %+v, and %+v gives %+v", small, before, large, after)
		}
	})
}
