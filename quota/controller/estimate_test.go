package controller

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// outgrown sets up a VM with a launcher smaller than a new one would be, and with room for a second
// one of the old size.
func outgrown(t *testing.T, r *Reconciler, w *world) {
	t.Helper()
	vmi := &kubevirtv1.VirtualMachineInstance{}
	w.must(t, w.api.Get(t.Context(), client.ObjectKey{Namespace: namespaceName, Name: "vm"}, vmi))
	vmi.Spec.Domain.Memory = &kubevirtv1.Memory{Guest: new(resource.MustParse("2Gi"))}
	w.must(t, w.api.Update(t.Context(), vmi))
	w.create(t, migration(kubevirtv1.MigrationPending))
	w.must(t, w.settle(t, r))
	m := migration("")
	w.must(t, w.api.Get(t.Context(), client.ObjectKeyFromObject(m), m))
	m.Status.Conditions = []kubevirtv1.VirtualMachineInstanceMigrationCondition{{
		Type:   kubevirtv1.VirtualMachineInstanceMigrationRejectedByResourceQuota,
		Status: corev1.ConditionTrue,
	}}
	w.must(t, w.api.Update(t.Context(), m))
}

func knownKubeVirt() *kubevirtv1.KubeVirt {
	k := &kubevirtv1.KubeVirt{}
	k.Namespace, k.Name, k.Status.ObservedKubeVirtVersion = "kubevirt", "kubevirt", "v1.7.0"
	return k
}

// counting returns a reconciler and its number of reads of a whole VMI.
func (w *world) counting() (*Reconciler, *int) {
	r, n := w.reconciler(interceptor.Funcs{}), 0
	r.Live = interceptor.NewClient(w.api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
			opts ...client.GetOption) error {
			if _, whole := o.(*kubevirtv1.VirtualMachineInstance); whole {
				n++
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	return r, &n
}

// Without webhooks only an estimate shows the charge of a rejected target pod.
func TestARejectedTargetIsEstimated(t *testing.T) {
	w := newWorld(t)
	w.create(t, knownKubeVirt())
	r, reads := w.counting()
	outgrown(t, r, w)
	if *reads > 0 {
		t.Errorf("%d VMIs were read for a target that no quota had rejected", *reads)
	}
	w.must(t, w.settle(t, r))
	// 2Gi in one vCPU: 220Mi for processes, 8Mi for the vCPU, 8Mi for I/O threads, 32Mi for
	// graphics; and 35M
	want := resource.MustParse("3537243840") // with 1Gi for the source
	if hard := w.quota(t).Spec.Hard[corev1.ResourceRequestsMemory]; hard.Cmp(want) != 0 {
		t.Errorf("requests.memory is %s, want %s", &hard, &want)
	}
	if from := w.ledger(t)[0].Spec.From; from != v1alpha1.Computed {
		t.Errorf("reservation is %s", from)
	}
}

// An estimate expires and is made again as long as it is required.
func TestEstimatesAreMadeNowAndThen(t *testing.T) {
	w := newWorld(t)
	r, reads := w.counting()
	outgrown(t, r, w)
	w.must(t, w.settle(t, r))
	for range 2 {
		result, err := reconcileOnce(r)
		w.must(t, err)
		if *reads != 1 || result.RequeueAfter != estimatePeriod {
			t.Errorf("%d VMIs were read, and again after %s: want 1, and %s", *reads,
				result.RequeueAfter, estimatePeriod)
		}
	}
	if hard := w.quota(t).Spec.Hard; !same(hard, doubled()) {
		t.Errorf("hard is %v without a KubeVirt that is known: want %v", hard, doubled())
	}
	w.create(t, knownKubeVirt())
	w.now = w.now.Add(estimatePeriod)
	w.must(t, w.settle(t, r))
	// one more read for the cause of the growth
	if from := w.ledger(t)[0].Spec.From; *reads != 3 || from != v1alpha1.Computed {
		t.Errorf("%d reads of a VMI, and the reservation is %s", *reads, from)
	}
	w.now = w.now.Add(estimatePeriod)
	w.toPhase(t, kubevirtv1.MigrationFailed)
	w.must(t, w.settle(t, r))
	w.clean(t)
	if left := r.namespaces.get(namespaceName).estimates; len(left) > 0 {
		t.Errorf("remembered: %v", left)
	}
}

// A new VMI with the name of an old one is a different VMI.
func TestAVMIThatWasMadeAnewIsNotEstimated(t *testing.T) {
	w := newWorld(t)
	w.create(t, knownKubeVirt())
	r, _ := w.counting()
	outgrown(t, r, w)
	r.Live = interceptor.NewClient(w.api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
			opts ...client.GetOption) error {
			err := c.Get(ctx, key, o, opts...)
			if vmi, whole := o.(*kubevirtv1.VirtualMachineInstance); whole {
				vmi.UID = "another"
			}
			return err
		},
	})
	w.must(t, w.settle(t, r))
	if from := w.ledger(t)[0].Spec.From; from != v1alpha1.Estimated {
		t.Errorf("reservation is %s", from)
	}
}
