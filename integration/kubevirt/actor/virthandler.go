package actor

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	virtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// virtHandler acts as the virt-handlers of the actor's Nodes.
type virtHandler struct {
	api      client.Client
	accounts map[string]client.Client // by node, with virt-handler's own rights
}

func vmiOfMigration(_ context.Context, o client.Object) []reconcile.Request {
	m := o.(*virtv1.VirtualMachineInstanceMigration)
	return request(m.Namespace, m.Spec.VMIName)
}

func vmiOfPod(_ context.Context, o client.Object) []reconcile.Request {
	owner := metav1.GetControllerOf(o)
	if owner == nil || owner.Kind != virtv1.VirtualMachineInstanceGroupVersionKind.Kind {
		return nil
	}
	return request(o.GetNamespace(), owner.Name)
}

func request(namespace, name string) []reconcile.Request {
	return []reconcile.Request{
		{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}}
}

// Reconcile implements reconcile.Reconciler.
func (v *virtHandler) Reconcile(
	ctx context.Context, r reconcile.Request,
) (reconcile.Result, error) {
	vmi := &virtv1.VirtualMachineInstance{}
	if err := v.api.Get(ctx, r.NamespacedName, vmi); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	account, ok := v.accounts[vmi.Status.NodeName]
	if !ok {
		return reconcile.Result{}, nil
	}
	before := vmi.DeepCopy()
	switch {
	case vmi.IsFinal():
		return reconcile.Result{}, nil
	case vmi.DeletionTimestamp != nil:
		shutDown(vmi)
	case vmi.Status.Phase == virtv1.Scheduled:
		boot(vmi)
	default:
		if err := v.migrate(ctx, vmi); err != nil {
			return reconcile.Result{}, err
		}
	}
	return reconcile.Result{}, write(ctx, account, before, vmi)
}

// write stores the changes, unless another writer was faster. virt-handler has no right to patch.
func write(
	ctx context.Context, account client.Client, before, vmi *virtv1.VirtualMachineInstance,
) error {
	if equality.Semantic.DeepEqual(before, vmi) {
		return nil
	}
	if err := ignoreRace(account.Update(ctx, vmi)); err != nil {
		return fmt.Errorf("writing the VMI: %w", err)
	}
	return nil
}

// boot reports a running, migratable guest. virt-controller requires a SELinux context first.
func boot(vmi *virtv1.VirtualMachineInstance) {
	toPhase(vmi, virtv1.Running)
	vmi.Status.MigrationMethod = virtv1.LiveMigration
	vmi.Status.MigrationTransport = virtv1.MigrationTransportUnix
	vmi.Status.SelinuxContext = "none"
	vmi.Status.Machine = &virtv1.Machine{Type: machineType}
	if m := vmi.Spec.Domain.Memory; m != nil && m.Guest != nil {
		vmi.Status.Memory = &virtv1.MemoryStatus{GuestAtBoot: m.Guest, GuestCurrent: m.Guest,
			GuestRequested: m.Guest}
	}
	setCondition(vmi, virtv1.VirtualMachineInstanceIsMigratable)
	setCondition(vmi, virtv1.VirtualMachineInstanceIsStorageLiveMigratable)
}

func shutDown(vmi *virtv1.VirtualMachineInstance) {
	if vmi.Status.Phase == virtv1.Running || vmi.Status.Phase == virtv1.Scheduled {
		toPhase(vmi, virtv1.Succeeded)
	}
}

func toPhase(vmi *virtv1.VirtualMachineInstance, phase virtv1.VirtualMachineInstancePhase) {
	vmi.Status.Phase = phase
	vmi.Status.PhaseTransitionTimestamps = append(vmi.Status.PhaseTransitionTimestamps,
		virtv1.VirtualMachineInstancePhaseTransitionTimestamp{Phase: phase,
			PhaseTransitionTimestamp: metav1.Now()})
}

func setCondition(
	vmi *virtv1.VirtualMachineInstance, t virtv1.VirtualMachineInstanceConditionType,
) {
	removeConditions(vmi, t)
	vmi.Status.Conditions = append(vmi.Status.Conditions, virtv1.VirtualMachineInstanceCondition{
		Type: t, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(),
	})
}

func removeConditions(
	vmi *virtv1.VirtualMachineInstance, types ...virtv1.VirtualMachineInstanceConditionType,
) {
	vmi.Status.Conditions = slices.DeleteFunc(vmi.Status.Conditions,
		func(c virtv1.VirtualMachineInstanceCondition) bool {
			return slices.Contains(types, c.Type)
		})
}
