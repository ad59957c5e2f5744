package controller

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mooring-vm/mooring/quota"
)

const rejected = `pods "virt-launcher-late" is forbidden: exceeded quota: quota, requested: ` +
	`pods=1, used: pods=1, limited: pods=1`

// rejectedVM is a starting VM with a launcher pod that a quota rejects.
func rejectedVM(
	change func(*kubevirtv1.VirtualMachine, *kubevirtv1.VirtualMachineInstance),
) (*kubevirtv1.VirtualMachine, *kubevirtv1.VirtualMachineInstance) {
	vm := &kubevirtv1.VirtualMachine{ObjectMeta: named("late", "late-vm")}
	vm.Spec.RunStrategy, vm.Spec.Template = new(kubevirtv1.RunStrategyAlways),
		&kubevirtv1.VirtualMachineInstanceTemplateSpec{}
	vmi := &kubevirtv1.VirtualMachineInstance{ObjectMeta: named("late", "late-vmi")}
	vmi.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(vm, kubevirtv1.VirtualMachineGroupVersionKind)}
	vmi.Status.Phase = kubevirtv1.Pending
	vmi.Status.Conditions = []kubevirtv1.VirtualMachineInstanceCondition{{
		Type: kubevirtv1.VirtualMachineInstanceSynchronized, Status: corev1.ConditionFalse,
		Reason: "FailedCreate", Message: rejected,
	}}
	if change != nil {
		change(vm, vmi)
	}
	return vm, vmi
}

// reconcileRejectedVM reconciles rejectedVM until the Halter is finished with it. It returns the VM
// and the Event, if any.
func reconcileRejectedVM(
	t *testing.T, w *world, hooks interceptor.Funcs,
) (*kubevirtv1.VirtualMachine, string) {
	t.Helper()
	r := w.reconciler(hooks)
	name := types.NamespacedName{Namespace: namespaceName, Name: "late"}
	h := NewHalter(r)
	for again := true; again; {
		result, err := h.Reconcile(t.Context(), reconcile.Request{NamespacedName: name})
		w.must(t, err)
		w.now = w.now.Add(result.RequeueAfter)
		again = result.RequeueAfter > 0
	}
	vm := &kubevirtv1.VirtualMachine{}
	if err := w.api.Get(t.Context(), name, vm); err != nil {
		t.Fatal(err)
	}
	select {
	case event := <-r.Events.(*events.FakeRecorder).Events:
		return vm, event
	default:
		return vm, ""
	}
}

// migrating sets up a full quota, raised for a migration.
func migrating(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.create(t, migration(kubevirtv1.MigrationPending))
	w.must(t, w.settle(t, w.reconciler(interceptor.Funcs{})))
	w.use(t, base())
	return w
}

// use sets status.used.
func (w *world) use(t *testing.T, used corev1.ResourceList) {
	t.Helper()
	q := w.quota(t)
	q.Status.Used = used
	w.must(t, w.api.Status().Update(t.Context(), q))
}

func TestAVMThatDoesNotFitIsHalted(t *testing.T) {
	for name, change := range map[string]func(*kubevirtv1.VirtualMachine,
		*kubevirtv1.VirtualMachineInstance){
		"runStrategy": nil,
		"running": func(vm *kubevirtv1.VirtualMachine, _ *kubevirtv1.VirtualMachineInstance) {
			vm.Spec.RunStrategy, vm.Spec.Running = nil, new(true)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := migrating(t)
			vm, vmi := rejectedVM(change)
			w.create(t, vm)
			w.create(t, vmi)
			vm, event := reconcileRejectedVM(t, w, interceptor.Funcs{})
			if vm.Spec.Running != nil || vm.Spec.RunStrategy == nil ||
				*vm.Spec.RunStrategy != kubevirtv1.RunStrategyHalted {
				t.Errorf("running %v, runStrategy %v, want Halted", vm.Spec.Running,
					vm.Spec.RunStrategy)
			}
			if got := vm.Annotations[quota.DefaultPrefix+quota.HaltedName]; got != rejected {
				t.Errorf("annotation %q, want KubeVirt's message", got)
			}
			if !strings.Contains(event, ReasonHalted) || !strings.Contains(event, rejected) {
				t.Errorf("Event %q", event)
			}
			if _, event := reconcileRejectedVM(t, w, interceptor.Funcs{}); event != "" {
				t.Errorf("second Event: %s", event)
			}
		})
	}
}

func TestVMsThatAreNotHalted(t *testing.T) {
	type change = func(*kubevirtv1.VirtualMachine, *kubevirtv1.VirtualMachineInstance)
	for name, change := range map[string]change{
		"runs": func(_ *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance) {
			vmi.Status.Phase, vmi.Status.NodeName = kubevirtv1.Running, "node"
		},
		"is rejected by another quota": func(_ *kubevirtv1.VirtualMachine,
			vmi *kubevirtv1.VirtualMachineInstance) {
			vmi.Status.Conditions[0].Message = strings.ReplaceAll(rejected, "quota: quota,",
				"quota: other,")
		},
		"fails for another reason": func(_ *kubevirtv1.VirtualMachine,
			vmi *kubevirtv1.VirtualMachineInstance) {
			vmi.Status.Conditions[0].Message = "no service account"
		},
		"was rejected once": func(_ *kubevirtv1.VirtualMachine,
			vmi *kubevirtv1.VirtualMachineInstance) {
			vmi.Status.Conditions[0].Status = corev1.ConditionTrue
		},
		"is no VM's": func(_ *kubevirtv1.VirtualMachine, vmi *kubevirtv1.VirtualMachineInstance) {
			vmi.OwnerReferences = nil
		},
		"is a VM's that was made again": func(_ *kubevirtv1.VirtualMachine,
			vmi *kubevirtv1.VirtualMachineInstance) {
			vmi.OwnerReferences[0].UID = "old"
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := migrating(t)
			vm, vmi := rejectedVM(change)
			w.create(t, vm)
			w.create(t, vmi)
			wantUntouched(t, w, interceptor.Funcs{})
		})
	}
}

// The missing room may have become free.
func TestAVMThatFitsByNowIsNotHalted(t *testing.T) {
	w := migrating(t)
	vm, vmi := rejectedVM(nil)
	w.create(t, vm)
	w.create(t, vmi)
	h := NewHalter(w.reconciler(interceptor.Funcs{}))
	request := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespaceName,
		Name: "late"}}
	first, err := h.Reconcile(t.Context(), request)
	w.must(t, err)
	if first.RequeueAfter != minShortage {
		t.Errorf("requeue after %s, want %s", first.RequeueAfter, minShortage)
	}
	w.use(t, corev1.ResourceList{corev1.ResourcePods: {}, corev1.ResourceRequestsMemory: {}})
	w.now = w.now.Add(minShortage)
	if _, err := h.Reconcile(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	w.must(t, w.api.Get(t.Context(), request.NamespacedName, vm))
	if *vm.Spec.RunStrategy != kubevirtv1.RunStrategyAlways {
		t.Errorf("it is %s", *vm.Spec.RunStrategy)
	}
}

func TestNoHaltWithoutReservedAmounts(t *testing.T) {
	w := newWorld(t)
	vm, vmi := rejectedVM(nil)
	w.create(t, vm)
	w.create(t, vmi)
	wantUntouched(t, w, interceptor.Funcs{})
}

// An opted-out quota keeps no maintenance share.
func TestNoHaltInAnOptedOutQuota(t *testing.T) {
	w := newWorld(t)
	ns, q := &corev1.Namespace{}, w.quota(t)
	w.must(t, w.api.Get(t.Context(), client.ObjectKey{Name: namespaceName}, ns))
	ns.Annotations = map[string]string{quota.MaintenanceAnnotation: `{"limitsMemoryPercent":50}`}
	w.must(t, w.api.Update(t.Context(), ns))
	q.Spec.Hard[corev1.ResourceLimitsMemory] = resource.MustParse("1Gi")
	q.Annotations = map[string]string{quota.DefaultPrefix + quota.SkipName: "true"}
	w.must(t, w.api.Update(t.Context(), q))
	w.use(t, base())
	vm, vmi := rejectedVM(nil)
	w.create(t, vm)
	w.create(t, vmi)
	wantUntouched(t, w, interceptor.Funcs{})
}

// Caches may not show a launcher pod yet (harvester#7585).
func TestAVMWhosePodIsNotCachedIsNotHalted(t *testing.T) {
	w := migrating(t)
	vm, vmi := rejectedVM(nil)
	pod := launcher("virt-launcher-late", map[string]string{kubevirtv1.CreatedByLabel: "late-vmi"})
	for _, o := range []client.Object{vm, vmi, pod} {
		w.create(t, o)
	}
	hidden := 0
	wantUntouched(t, w, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
			opts ...client.ListOption) error {
			if _, pods := list.(*corev1.PodList); pods {
				hidden++
				return nil
			}
			return c.List(ctx, list, opts...)
		},
	})
	if hidden == 0 {
		t.Error("no list of pods from the cache")
	}
}

func wantUntouched(t *testing.T, w *world, hooks interceptor.Funcs) {
	t.Helper()
	vm, event := reconcileRejectedVM(t, w, hooks)
	if *vm.Spec.RunStrategy != kubevirtv1.RunStrategyAlways || len(vm.Annotations) > 0 ||
		event != "" {
		t.Errorf("runStrategy %s, annotations %v, Event %q: want a VM that was left alone",
			*vm.Spec.RunStrategy, vm.Annotations, event)
	}
}

// A VM, its VMI or its namespace may disappear at any time. The Halter then forgets it.
func TestWhatGoesIsNoErrorOfTheHalter(t *testing.T) {
	gone := func(resource string) error {
		return apierrors.NewNotFound(schema.GroupResource{Resource: resource}, "late")
	}
	for name, hooks := range map[string]interceptor.Funcs{
		"the VM": {Patch: func(context.Context, client.WithWatch, client.Object, client.Patch,
			...client.PatchOption) error {
			return gone("virtualmachines")
		}},
		"the namespace": {Get: func(context.Context, client.WithWatch, client.ObjectKey,
			client.Object, ...client.GetOption) error {
			return gone("namespaces")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := migrating(t)
			vm, vmi := rejectedVM(nil)
			w.create(t, vm)
			w.create(t, vmi)
			h := NewHalter(w.reconciler(interceptor.Funcs{}))
			request := reconcile.Request{
				NamespacedName: types.NamespacedName{Namespace: namespaceName, Name: "late"}}
			result, err := h.Reconcile(t.Context(), request)
			w.must(t, err)
			w.now = w.now.Add(result.RequeueAfter)
			h.Client = interceptor.NewClient(w.api, hooks)
			if _, err := h.Reconcile(t.Context(), request); err != nil {
				t.Error(err)
			}
			if name == "the namespace" && len(h.since) > 0 {
				t.Errorf("remembered: %v", h.since)
			}
		})
	}
}
