package launcher

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api"
)

// asCame is the record of the fixture pod.
const asCame = `{"requests":{"cpu":"200m","memory":"2300Mi"},"limits":{"cpu":"2000m","memory":"3Gi"}}`

// written are the annotations of every annotated launcher, with changes.
func written(changes ...string) map[string]string {
	all := map[string]string{
		"launcher.mooring.dev":              "compute",
		"api-version.mooring.dev":           "v1alpha1",
		"required-plugins.noderesource.dev": `["mooring"]`,
		"rendered.resize.mooring.dev":       asCame,
	}
	for i := 0; i < len(changes); i += 2 {
		all[changes[i]] = changes[i+1]
	}
	return all
}

// locked are the annotations of a launcher with a memory lock.
func locked(changes ...string) map[string]string {
	return written(append([]string{
		"requires-lock.memlock.mooring.dev", "true", "guest-memory.memlock.mooring.dev", "2Gi",
		"value.memlock.mooring.dev", "0", "added.memlock.mooring.dev", "0",
		"overhead.memlock.mooring.dev", "293601632",
	}, changes...)...)
}

func TestAnnotations(t *testing.T) {
	type vmi = kubevirtv1.VirtualMachineInstance
	required := kubevirtv1.MemLockRequirement(kubevirtv1.MemLockRequired)
	// With a VFIO device KubeVirt's overhead is 1 GiB larger.
	device := []string{"overhead.memlock.mooring.dev", "1367343456"}
	for name, c := range map[string]struct {
		version string
		vmi     func(*vmi)
		before  map[string]string
		want    map[string]string
	}{
		"no need": {vmi: func(*vmi) {}, before: map[string]string{"a": "b"},
			want: map[string]string{"a": "b"}},
		"gpu": {vmi: withGPUs(1), want: locked(append(device, "devices.memlock.mooring.dev",
			"vfio=1")...)},
		"host devices and sriov": {
			vmi: func(v *vmi) {
				v.Spec.Domain.Devices.HostDevices = make([]kubevirtv1.HostDevice, 2)
				v.Spec.Domain.Devices.Interfaces = []kubevirtv1.Interface{
					{InterfaceBindingMethod: kubevirtv1.InterfaceBindingMethod{
						SRIOV: &kubevirtv1.InterfaceSRIOV{}}}}
			},
			want: locked(append(device, "devices.memlock.mooring.dev", "vfio=3")...),
		},
		"realtime": {vmi: func(v *vmi) { v.Spec.Domain.CPU.Realtime = &kubevirtv1.Realtime{} },
			want: locked()},
		"sev": {vmi: func(v *vmi) {
			v.Spec.Domain.LaunchSecurity = &kubevirtv1.LaunchSecurity{SEV: &kubevirtv1.SEV{}}
		}, want: locked("overhead.memlock.mooring.dev", "562037088")},
		"largest": {
			vmi: func(v *vmi) {
				v.Spec.Domain.CPU.Realtime = &kubevirtv1.Realtime{}
				v.Spec.Domain.Memory.MaxGuest = new(resource.MustParse("8Gi"))
			},
			want: locked("guest-memory.memlock.mooring.dev", "8Gi",
				"overhead.memlock.mooring.dev", "293601688"),
		},
		"reserved overhead": {
			version: "1.8",
			vmi: func(v *vmi) {
				v.Spec.Domain.Memory.ReservedOverhead = &kubevirtv1.ReservedOverhead{
					MemLock: &required, AddedOverhead: new(resource.MustParse("1Gi"))}
			},
			want: locked(),
		},
		"requested by the VM's author": {
			vmi: func(*vmi) {}, before: map[string]string{api.DevicesKey: "vdpa=1", "x": "y"},
			want: locked("devices.memlock.mooring.dev", "vdpa=1", "x", "y"),
		},
		"beside values of other webhooks": {
			vmi: withGPUs(1),
			before: map[string]string{api.DevicesKey: "vdpa=1", api.ValueKey: "1Gi",
				api.RequiresLockKey: "true", api.GuestMemoryKey: "1Gi",
				"required-plugins.noderesource.dev": "[other]"},
			want: locked(append(device, "devices.memlock.mooring.dev", "vfio=1,vdpa=1",
				"value.memlock.mooring.dev", "1Gi", "required-plugins.noderesource.dev",
				`["other","mooring"]`)...),
		},
		"unlimited stays": {vmi: withGPUs(1), before: map[string]string{api.ValueKey: "unlimited"},
			want: locked(append(device, "devices.memlock.mooring.dev", "vfio=1",
				"value.memlock.mooring.dev", "unlimited")...)},
		"a larger one stays": {
			vmi: withGPUs(1),
			before: map[string]string{api.GuestMemoryKey + "/container.compute": "64Gi",
				api.DevicesKey + "/pod": "vfio=4,iommu"},
			want: func() map[string]string {
				w := locked(append(device, api.GuestMemoryKey+"/container.compute", "64Gi",
					api.DevicesKey+"/pod", "vfio=4,iommu")...)
				delete(w, api.GuestMemoryKey)
				return w
			}(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(newPod(c.before), newVMI(c.vmi))
			if c.version != "" {
				in.Cluster = cluster(c.version)
			}
			pod := mutated(t, in)
			got, want := pod.Annotations, c.want
			if name != "no need" { // other tests check the shares
				want[api.AddedKey] = got[api.AddedKey]
				if c.before[api.ValueKey] == "" {
					want[api.ValueKey] = got[api.AddedKey]
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// The overhead is KubeVirt's own limit without the guest's 2 GiB, exact to the byte. The share is
// the addition of VEP 144.
func TestOverheadAndShare(t *testing.T) {
	type vmi = kubevirtv1.VirtualMachineInstance
	const (
		oneCPU = 285213024 // 1.7: 272 MiB with page tables, and KubeVirt's rounding to 1000 bytes
		device = 1367343456
	)
	cpus := func(n uint32) func(*vmi) {
		return func(v *vmi) {
			v.Spec.Domain.CPU = &kubevirtv1.CPU{Sockets: n, Cores: 1, Threads: 1,
				Realtime: &kubevirtv1.Realtime{}}
		}
	}
	added := func(v *vmi) {
		cpus(1)(v)
		v.Spec.Domain.Memory.ReservedOverhead = &kubevirtv1.ReservedOverhead{
			AddedOverhead: new(resource.MustParse("3Gi"))}
	}
	for name, c := range map[string]struct {
		version  string
		vmi      func(*vmi)
		reserved Reserved
		overhead int64
		share    string
	}{
		"one vCPU":   {"1.7", cpus(1), Reserved{}, oneCPU, "0"},
		"many vCPUs": {"1.7", cpus(11), Reserved{}, oneCPU + 80*mi, "0"},
		"first words of VEP 144": {"1.7", cpus(1), Reserved{Value: 5 * gi},
			oneCPU, "5Gi"},
		"addedOverhead, before KubeVirt knew": {"1.7", added, Reserved{}, oneCPU, "3Gi"},
		"addedOverhead":                       {"1.9", added, Reserved{}, oneCPU, "3Gi"},
		"one device":                          {"1.9", withGPUs(1), Reserved{}, device, "0"},
		"several devices before 1.8.3":        {"1.8.2", withGPUs(3), Reserved{}, device, "0"},
		"several devices": {"1.8.3", withGPUs(3), Reserved{},
			device + 2*2*gi, "0"},
		"requires a lock in the first words": {"1.7", func(*vmi) {},
			Reserved{RequiresLock: true, Value: 1}, oneCPU + 8*mi, "1"},
		"a value alone requires no lock": {"1.7", func(*vmi) {}, Reserved{Value: 1}, 0, ""},
		"a device, and a value in first words": {"1.7", withGPUs(1), Reserved{Value: gi}, device,
			"1Gi"},
	} {
		in := input(newPod(nil), newVMI(c.vmi))
		in.Reserved, in.Cluster = c.reserved, cluster(c.version)
		got := mutated(t, in).Annotations
		if got[api.ValueKey] != c.share || got[api.AddedKey] != c.share {
			t.Errorf("%s: got %q, %q of it noted, want %q", name, got[api.ValueKey],
				got[api.AddedKey], c.share)
		}
		if c.overhead > 0 && got[api.OverheadKey] != api.Bytes(c.overhead).String() {
			t.Errorf("%s: overhead %q, want %d", name, got[api.OverheadKey], c.overhead)
		}
	}
}

// After a later webhook raised the amount, a second pass counts its own share once.
func TestReinvocation(t *testing.T) {
	in := input(newPod(nil), newVMI(withGPUs(1)))
	in.Reserved.Value = gi
	first := mutated(t, in)
	share, _, _ := api.Added(first.Annotations)
	if err := api.AddLockable(first.Annotations, gi); err != nil {
		t.Fatal(err)
	}
	in.Pod = first
	if got, want := mutated(t, in).Annotations[api.ValueKey],
		(share + api.Bytes(gi)).String(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	in.Reserved.Value = 2 * gi // the VM's need grew
	if got, want := mutated(t, in).Annotations[api.ValueKey],
		(share + api.Bytes(2*gi)).String(); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// An invalid VM or annotation leaves the pod unchanged, with a warning.
func TestWrong(t *testing.T) {
	for want, in := range map[string]Input{
		`annotation value.memlock.mooring.dev: "x"`: input(
			newPod(map[string]string{api.ValueKey: "x"}), newVMI(withGPUs(1))),
		`annotation launcher.mooring.dev: "X"`: input(
			newPod(map[string]string{api.LauncherKey: "X"}), newVMI(withGPUs(1))),
		`has no container "other"`: input(
			newPod(map[string]string{api.LauncherKey: "other"}), newVMI(withGPUs(1))),
		`"x": want "true", "false" or "follow-limits"; annotation value`: input(
			newPod(map[string]string{api.ValueKey: "x", api.InjectSidecarKey: "x"}), newVMI()),
		"this node understands v1alpha1": input(newPod(map[string]string{api.APIVersionKey: "v2"}),
			newVMI(withGPUs(1))),
		"spec.domain.memory.maxGuest": input(newPod(nil),
			newVMI(withGPUs(1), func(v *kubevirtv1.VirtualMachineInstance) {
				v.Spec.Domain.Memory.MaxGuest = new(resource.MustParse("-1"))
			})),
		"for value is more than an int64 holds": input(
			newPod(map[string]string{api.ValueKey: "9223372036854775807"}), newVMI(withGPUs(1))),
		"more for launcher's overhead is more than an int64 holds": input(
			newPod(map[string]string{api.GuestMemoryKey: "9223372036854775807"}),
			newVMI(withGPUs(1))),
	} {
		out, err := Mutate(in)
		if err != nil || out.Pod != nil || len(out.Warnings) != 1 ||
			!strings.Contains(out.Warnings[0], want) {
			t.Errorf("%s: got %v, warnings %q, pod %v", want, err, out.Warnings, out.Pod != nil)
		}
	}
}
