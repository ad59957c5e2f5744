package guard_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/quota/webhook/guard"
)

// TestTenEditsOfOneVM asks ten times for 5Gi more, in a quota of 16Gi. KubeVirt follows each edit.
func TestTenEditsOfOneVM(t *testing.T) {
	for name, follows := range map[string]func(*fleet){
		"hot-plugged at once":    func(f *fleet) { f.hotPlug("vm0"); f.migrate("vm0") },
		"before the migration":   func(f *fleet) { f.hotPlug("vm0") },
		"waiting for a restart":  func(*fleet) {},
		"much later, and slowly": func(f *fleet) { f.now = f.now.Add(time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 1, "16Gi")
			h := guard.NewVM(f.guard)
			for i := 1; i <= 10; i++ {
				fits := 1+5*i < 16
				if admitted := f.edit(h, "vm0", 1+5*i); admitted != fits {
					t.Errorf("edit %d, to %dGi: admitted %t, want %t", i, 1+5*i, admitted, fits)
				}
				follows(f)
			}
		})
	}
}

// TestTenEditsOfTenVMs asks for 5Gi more for each of ten VMs, with a minute between two edits. The
// quota has room for two of them. The state of KubeVirt, and a new program, make no difference.
func TestTenEditsOfTenVMs(t *testing.T) {
	for name, follows := range map[string]func(*fleet, string){
		"waiting for a restart": func(*fleet, string) {},
		"before the migration":  func(f *fleet, vm string) { f.hotPlug(vm) },
		"hot-plugged at once":   func(f *fleet, vm string) { f.hotPlug(vm); f.migrate(vm) },
		"hot-plugged, then taken back": func(f *fleet, vm string) {
			f.hotPlug(vm)
			v := &kubevirtv1.VirtualMachine{}
			f.get(vm, v)
			v.Spec.Template = sizedVM(vm, 1).Spec.Template
			v.Generation++
			f.update(v)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 10, "26Gi") // launchers of 15Gi, and 11Gi
			var grown []string
			for _, vm := range f.names {
				if f.edit(guard.NewVM(f.guard), vm, 6) {
					grown = append(grown, vm)
					follows(f, vm)
				}
				f.now = f.now.Add(time.Minute)
			}
			if len(grown) != 2 {
				t.Errorf("%v may grow, want two of them", grown)
			}
			r := guard.NewVM(f.guard).Handle(t.Context(), ask(t, admissionv1.Create, nil,
				sizedVM("new", 2)))
			want(t, r, "VirtualMachine new does not fit")
		})
	}
}

// TestGrowthClaimsNothing: none of these VMs claims growth, so another VM may take the free 11Gi.
func TestGrowthClaimsNothing(t *testing.T) {
	edit := func(f *fleet, gib int, with ...func(*kubevirtv1.VirtualMachine)) {
		v := &kubevirtv1.VirtualMachine{}
		f.get("vm0", v)
		v.Spec.Template = sizedVM("vm0", gib).Spec.Template
		v.Generation++
		for _, change := range with {
			change(v)
		}
		f.update(v)
	}
	for name, change := range map[string]func(*fleet){
		"not edited":   func(*fleet) {},
		"shrunk":       func(f *fleet) { f.setLauncher("vm0", 1); edit(f, 1) },
		"only a label": func(f *fleet) { edit(f, 1, label) },
		"being stopped": func(f *fleet) {
			edit(f, 6, func(v *kubevirtv1.VirtualMachine) {
				v.Spec.RunStrategy = new(halted)
			})
		},
		"without its type": func(f *fleet) { edit(f, 6, unknownSize) },
		// for example after an upgrade of KubeVirt
		"a launcher smaller than its estimate": func(f *fleet) {
			pod := &corev1.Pod{}
			f.get("virt-launcher-vm0", pod)
			pod.Spec.Containers[0].Resources.Limits[corev1.ResourceMemory] = resource.MustParse("1Mi")
			f.update(pod)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 10, "26Gi")
			change(f)
			want(t, guard.NewVM(f.guard).Handle(t.Context(), ask(t, admissionv1.Create, nil,
				sizedVM("new", 10))))
		})
	}
}

// TestRandomEdits edits, hot-plugs and migrates VMs in a random order, with changing programs and
// long waits. Safety: the quota has room for all VMs at their largest size in template, instance or
// launcher. Liveness: the guard admits an edit within the quota, at the latest when no claim is
// left.
func TestRandomEdits(t *testing.T) {
	const quotaGiB = 24
	for seed := range uint64(8) {
		f := newFleet(t, 4, fmt.Sprintf("%dGi", quotaGiB))
		random := rand.New(rand.NewPCG(seed, 1))
		h := guard.NewVM(f.guard)
		var done []string
		for range 30 {
			name := f.names[random.IntN(len(f.names))]
			switch random.IntN(6) {
			case 0, 1, 2:
				gib := 1 + random.IntN(12)
				room := int64(quotaGiB)<<30 - f.demandBeside(name)
				admitted := f.edit(h, name, gib)
				done = append(done, fmt.Sprintf("edit %s to %d: %t", name, gib, admitted))
				f.now = f.now.Add(6 * time.Second)
				if fits := int64(gib)<<30+launcherOverhead <= room; fits && !admitted &&
					!f.edit(h, name, gib) {
					t.Fatalf("seed %d: refused within the quota: %v", seed, done)
				}
			case 3:
				f.hotPlug(name)
				done = append(done, "hot-plug "+name)
			case 4:
				f.migrate(name)
				done = append(done, "migrate "+name)
			case 5:
				f.now = f.now.Add(time.Duration(random.IntN(60)) * time.Second)
				h = guard.NewVM(f.guard)
				done = append(done, "another program")
			}
			if total := f.demandBeside(""); total > quotaGiB<<30 {
				t.Fatalf("seed %d: the VMs need %dMi: %v", seed, total>>20, done)
			}
		}
	}
}
