package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mooring-vm/mooring/quota"
)

const (
	// ReasonHalted is that of the Event on a VM that was halted.
	ReasonHalted = "InsufficientResourceQuota"

	// haltedAnnotation, under the prefix that users and other controllers share, says on a
	// VM why it was halted.
	haltedAnnotation = "insufficient-resource-quota"

	actionHalt = "HaltVM"

	// exceededQuota is what the API server says of a pod that a ResourceQuota rejects.
	exceededQuota = "exceeded quota"
)

// Halter halts VMs whose launcher pod a quota rejects while something of the quota is kept
// for migrations: KubeVirt would try for ever, and take what is kept the moment that it can.
// It is the second check after the admission webhooks, for what they have not seen. VMs of
// a namespace in which nothing is kept for migrations are KubeVirt's business.
type Halter struct{ *Reconciler }

// Reconcile looks at a VMI: in caches, which most of them need nothing more than, and then
// as everything is on the API server.
func (h Halter) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	for _, at := range []look{h.glance(), h.lastLook()} {
		if waits, err := h.waits(ctx, request.NamespacedName, at); err != nil || !waits {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
	}
	vmi := &kubevirtv1.VirtualMachineInstance{}
	if err := h.Live.Get(ctx, request.NamespacedName, vmi); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	owner, why := metav1.GetControllerOf(vmi), rejectedBecause(vmi)
	if why == "" || owner == nil || owner.Kind != "VirtualMachine" || vmi.DeletionTimestamp != nil || !begins(vmi) {
		return reconcile.Result{}, nil
	}
	return reconcile.Result{}, h.halt(ctx, types.NamespacedName{Namespace: vmi.Namespace, Name: owner.Name}, owner.UID, why)
}

// waits says whether a VMI has no launcher pod, while a quota of its namespace keeps
// something for migrations.
func (h Halter) waits(ctx context.Context, name types.NamespacedName, at look) (bool, error) {
	s, err := h.read(ctx, name.Namespace, at)
	if err != nil {
		return false, err
	}
	of := slices.IndexFunc(s.VMIs, func(v quota.VMI) bool { return v.Name == name.Name })
	if of < 0 || slices.ContainsFunc(s.Pods, func(pod *corev1.Pod) bool {
		return pod.Labels[kubevirtv1.CreatedByLabel] == string(s.VMIs[of].UID) && quota.Charged(pod, s.Now)
	}) {
		return false, nil
	}
	accounts, _ := quota.Accounts(s, h.Options)
	return slices.ContainsFunc(accounts, keeps), nil
}

// keeps says whether a quota keeps something for migrations.
func keeps(a quota.Account) bool { return len(a.Holders) > 0 || len(a.Shares.Maintenance) > 0 }

// begins says that a VMI has no node yet.
func begins(vmi *kubevirtv1.VirtualMachineInstance) bool {
	switch vmi.Status.Phase {
	case kubevirtv1.VmPhaseUnset, kubevirtv1.Pending, kubevirtv1.Scheduling:
		return vmi.Status.NodeName == ""
	}
	return false
}

// rejectedBecause is what virt-controller says of a launcher pod that a quota rejects.
func rejectedBecause(vmi *kubevirtv1.VirtualMachineInstance) string {
	for _, c := range vmi.Status.Conditions {
		if c.Type == kubevirtv1.VirtualMachineInstanceSynchronized && c.Status == corev1.ConditionFalse &&
			strings.Contains(c.Message, exceededQuota) {
			return c.Message
		}
	}
	return ""
}

// halt sets a VM's run strategy, if it is still the same VM, and tells why.
func (h Halter) halt(ctx context.Context, name types.NamespacedName, uid types.UID, why string) error {
	vm := &kubevirtv1.VirtualMachine{}
	if err := h.Live.Get(ctx, name, vm); err != nil {
		return client.IgnoreNotFound(err)
	}
	if vm.UID != uid || vm.DeletionTimestamp != nil || halted(vm) {
		return nil
	}
	patch, err := h.haltPatch(vm, why)
	if err != nil {
		return err
	}
	if err := h.Client.Patch(ctx, vm, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("halting VM %s: %w", name, client.IgnoreNotFound(err))
	}
	h.Logger.Warn("a VM was halted: its launcher pod does not fit what is not kept for migrations", "vm", name.String(), "reason", why)
	note := "halted, as its launcher pod does not fit the quota, of which a part is kept for migrations: " + why
	h.Events.Eventf(vm, nil, corev1.EventTypeWarning, ReasonHalted, actionHalt, "%s", shortened(note))
	return nil
}

func halted(vm *kubevirtv1.VirtualMachine) bool {
	strategy, err := vm.RunStrategy()
	return err != nil || strategy == kubevirtv1.RunStrategyHalted
}

// haltPatch is a merge patch at the resourceVersion that was read. A VM has either
// spec.running or spec.runStrategy.
func (h Halter) haltPatch(vm *kubevirtv1.VirtualMachine, why string) ([]byte, error) {
	return json.Marshal(map[string]any{
		"metadata": map[string]any{
			"resourceVersion": vm.ResourceVersion,
			"annotations":     map[string]string{h.prefix() + haltedAnnotation: why},
		},
		"spec": map[string]any{"running": nil, "runStrategy": kubevirtv1.RunStrategyHalted},
	})
}

func (h Halter) prefix() string {
	if h.Options.Prefix != "" {
		return h.Options.Prefix
	}
	return quota.DefaultPrefix
}
