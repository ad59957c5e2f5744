package guard_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/webhook/guard"
)

// migration is the migration of VM db.
func migration() *kubevirtv1.VirtualMachineInstanceMigration {
	m := &kubevirtv1.VirtualMachineInstanceMigration{ObjectMeta: inVMs("migrate-db")}
	m.UID, m.Spec.VMIName = "m-db", "db"
	return m
}

// instance is VM db. For the quotas here the estimate of its launcher is 9228748544 bytes: twice
// 4Gi and an overhead of 276Mi, and 60M for the guest console.
func instance() *kubevirtv1.VirtualMachineInstance {
	v := &kubevirtv1.VirtualMachineInstance{ObjectMeta: inVMs("db")}
	v.UID = "vmi-db"
	v.Spec = vm(always, "4Gi").Spec.Template.Spec
	return v
}

func migrating() []client.Object { return []client.Object{migration(), instance()} }

// TestRenderedTarget: the guard records a target pod's charge in its reservation, once.
func TestRenderedTarget(t *testing.T) {
	pod := made("5Gi", "m-db")
	charge := quota.Reserve(v1alpha1.RoleLauncher, pod)
	for name, test := range map[string]struct {
		ledger  *v1alpha1.MigrationReservation
		dry     bool
		written bool
	}{
		"larger than reserved": {reservation(), false, true},
		"dry run":              {reservation(), true, false},
		"as reserved": {edit(reservation(), func(r *v1alpha1.MigrationReservation) {
			r.Spec.Pods = []v1alpha1.ReservedPod{charge}
		}), false, false},
		"as written before": {edit(reservation(), said(quota.FormatRendered(charge))),
			false, false},
		"another one before": {edit(reservation(), func(r *v1alpha1.MigrationReservation) {
			r.Spec.Pods = []v1alpha1.ReservedPod{charge}
			said(`{"role":"Launcher","charge":{"pods":"1"}}`)(r)
		}), false, true},
		"rubbish before": {edit(reservation(), said("{")), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, append(migrating(), namespace(), raised(), test.ledger,
				kubevirtObject())...)
			before := stored(t, w, test.ledger)
			r := ask(t, admissionv1.Create, nil, pod)
			r.Namespace, r.UserInfo.Username, r.DryRun = "vms", virtController, &test.dry
			want(t, guard.NewLauncher(w.guard).Handle(t.Context(), r))
			after := stored(t, w, test.ledger)
			if changed := before.ResourceVersion != after.ResourceVersion; changed != test.written {
				t.Fatalf("written: %t, want %t", changed, test.written)
			}
			if !test.written {
				return
			}
			got, err := quota.Rendered(after)
			if err != nil || got == nil || !equality.Semantic.DeepEqual(*got, charge) {
				t.Errorf("%v: %s", err, cmp.Diff(charge, got))
			}
		})
	}
}

func said(text string) func(*v1alpha1.MigrationReservation) {
	return func(r *v1alpha1.MigrationReservation) {
		r.Annotations = map[string]string{quota.TargetAnnotation: text}
	}
}

func stored(
	t *testing.T, w *world, r *v1alpha1.MigrationReservation,
) *v1alpha1.MigrationReservation {
	t.Helper()
	out := &v1alpha1.MigrationReservation{}
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(r), out); err != nil {
		t.Fatal(err)
	}
	return out
}

// unnoted expects a pod to pass with one warning and a log line, and without a record.
func unnoted(t *testing.T, w *world, user string, pod *corev1.Pod, why string) {
	t.Helper()
	before := stored(t, w, reservation())
	w.log.Reset()
	r := ask(t, admissionv1.Create, nil, pod)
	r.Namespace, r.UserInfo.Username = "vms", user
	got := guard.NewLauncher(w.guard).Handle(t.Context(), r)
	if !got.Allowed || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], why) {
		t.Errorf("got %+v: want it to pass with one warning, that %s", got, why)
	}
	if !strings.Contains(w.log.String(), why) {
		t.Errorf("log: %s: want %q", &w.log, why)
	}
	if after := stored(t, w, reservation()); after.ResourceVersion != before.ResourceVersion {
		t.Errorf("written: %v", after.Annotations)
	}
}

// TestForgedTargets: any client can claim to be virt-controller. The guard records no charge
// without a migration and a VM in the cluster.
func TestForgedTargets(t *testing.T) {
	of := func(change func(*corev1.Pod)) *corev1.Pod { return edit(made("5Gi", "m-db"), change) }
	plain := made("5Gi", "m-db")
	other := edit(instance(), func(v *kubevirtv1.VirtualMachineInstance) { v.UID = "another" })
	for name, test := range map[string]struct {
		objects []client.Object
		pod     *corev1.Pod
		why     string
	}{
		"no migration": {[]client.Object{instance()}, plain, "no migration with UID"},
		"it has succeeded": {
			[]client.Object{instance(), edit(migration(), ended(kubevirtv1.MigrationSucceeded))},
			plain, "no migration with UID"},
		"it has failed": {[]client.Object{instance(),
			edit(migration(), ended(kubevirtv1.MigrationFailed))}, plain, "no migration with UID"},
		"no VM": {[]client.Object{migration()}, plain, "reading VirtualMachineInstance"},
		"a VM made anew": {[]client.Object{migration(), other}, plain,
			"controller is not VirtualMachineInstance"},
		"another VM's": {migrating(), of(func(p *corev1.Pod) {
			p.OwnerReferences[0].UID = "vmi-web"
		}), "controller is not VirtualMachineInstance"},
		"no owner": {migrating(), of(func(p *corev1.Pod) { p.OwnerReferences = nil }),
			"controller is not VirtualMachineInstance"},
		"owned alone": {migrating(), of(func(p *corev1.Pod) {
			p.OwnerReferences[0].Controller = nil
		}), "controller is not VirtualMachineInstance"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, append(test.objects, namespace(), raised(), reservation(),
				kubevirtObject())...)
			unnoted(t, w, virtController, test.pod, test.why)
		})
	}
}

func ended(
	phase kubevirtv1.VirtualMachineInstanceMigrationPhase,
) func(*kubevirtv1.VirtualMachineInstanceMigration) {
	return func(m *kubevirtv1.VirtualMachineInstanceMigration) { m.Status.Phase = phase }
}

// TestTargetThatCannotBeJudged: the guard records no charge for a VM of unknown size.
func TestTargetThatCannotBeJudged(t *testing.T) {
	w := newWorld(t, append(migrating(), namespace(), raised(), reservation(), kubevirtObject())...)
	w.breaks = errors.New("no answer")
	unnoted(t, w, virtController, made("5Gi", "m-db"), "no answer")
}

const device = "example.org/gpu"

// with adds requests to a pod's container, beside CPU and memory.
func with(name corev1.ResourceName, amount string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		c := &p.Spec.Containers[0]
		c.Resources.Limits[name] = resource.MustParse(amount)
		if name == device {
			c.Resources.Requests = list(device, amount)
		}
	}
}

// TestLikelyTargets: the guard records a target of up to twice its VM's estimate.
func TestLikelyTargets(t *testing.T) {
	const most, more = "18457497088", "18457497089" // twice the estimate, and one byte more
	resized := launcher("db", "1", "10Gi")
	gpus := edit(resized, with(device, "1"))
	active := func(pods ...types.UID) *kubevirtv1.VirtualMachineInstance {
		return edit(instance(), func(v *kubevirtv1.VirtualMachineInstance) {
			v.Status.ActivePods = map[types.UID]string{}
			for _, uid := range pods {
				v.Status.ActivePods[uid] = ""
			}
		})
	}
	multus := edit(instance(), func(v *kubevirtv1.VirtualMachineInstance) {
		v.Spec.Networks = []kubevirtv1.Network{
			{NetworkSource: kubevirtv1.NetworkSource{Multus: &kubevirtv1.MultusNetwork{}}}}
	})
	of := func(memory string, change ...func(*corev1.Pod)) *corev1.Pod {
		pod := made(memory, "m-db")
		for _, do := range change {
			do(pod)
		}
		return pod
	}
	for name, test := range map[string]struct {
		vmi     *kubevirtv1.VirtualMachineInstance
		present *corev1.Pod
		pod     *corev1.Pod
		why     string // empty: recorded
	}{
		"twice the estimate": {instance(), nil, of(most), ""},
		"more": {instance(), nil, of(more), "limits.memory: 17603Mi, " +
			"want at most 17602Mi"},
		"of another resource": {instance(), nil, of("1Gi", with("cpu", "5")),
			"limits.cpu: 5, want at most"},
		"twice a small launcher": {instance(), launcher("db", "1", "1Gi"), of(most), ""},
		"twice a resized one":    {instance(), resized, of("20Gi"), ""},
		"more than that": {instance(), resized, of("20481Mi"),
			"limits.memory: 20481Mi, want at most 20Gi"},
		"resized, and active": {active(resized.UID), resized, of("20Gi"), ""},
		"resized, and not active": {active("another"), resized, of("20Gi"),
			"want at most 17602Mi"},
		"resized, and elsewhere": {instance(), edit(resized, func(p *corev1.Pod) {
			p.Spec.NodeName = "node-2"
		}), of("20Gi"), "want at most 17602Mi"},
		"resized, and ended": {instance(), edit(resized, func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodFailed
		}), of("20Gi"), "want at most 17602Mi"},
		"resized, and another VM's": {instance(), edit(resized, func(p *corev1.Pod) {
			p.OwnerReferences[0].UID = "x"
		}), of("20Gi"), "want at most 17602Mi"},
		"an earlier target": {instance(), edit(resized, func(p *corev1.Pod) {
			p.Labels[kubevirtv1.MigrationJobLabel] = "m-db"
		}), of("20Gi"), "want at most 17602Mi"},
		"a device that the VM has": {instance(), gpus, of("5Gi", with(device, "2")), ""},
		"more of it": {instance(), gpus, of("5Gi", with(device, "3")),
			device + ": 3, want at most 2"},
		"a device from nowhere": {instance(), nil, of("5Gi", with(device, "1")),
			device + ": 1, want at most 0"},
		"a device, maybe of a network": {multus, nil, of("5Gi", with(device, "1")), ""},
		"resource without a quota": {instance(), nil,
			of("5Gi", with("ephemeral-storage", "1Ti")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			q := edit(raised(), hard("requests."+device, "4"))
			objects := []client.Object{namespace(), q, reservation(), kubevirtObject(),
				migration(), test.vmi}
			if test.present != nil {
				objects = append(objects, test.present)
			}
			w := newWorld(t, objects...)
			if test.why != "" {
				unnoted(t, w, virtController, test.pod, test.why)
				return
			}
			r := ask(t, admissionv1.Create, nil, test.pod)
			r.Namespace, r.UserInfo.Username = "vms", virtController
			want(t, guard.NewLauncher(w.guard).Handle(t.Context(), r))
			if got, err := quota.Rendered(stored(t, w, reservation())); err != nil || got == nil {
				t.Errorf("got %v, %v: want the charge of the pod", got, err)
			}
		})
	}
}
