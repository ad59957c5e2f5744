package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
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

	actionHalt = "HaltVM"
)

// Halter halts VMs whose launcher pod a quota rejects that keeps something for migrations:
// KubeVirt would try for ever, and take what is kept the moment that it can. It is the second
// check after the admission webhooks, for what they have not seen. A VM that another quota
// rejects, or that would fit by now, is KubeVirt's business, which tries again.
type Halter struct {
	*Reconciler

	mu    sync.Mutex
	since map[types.NamespacedName]time.Time // VMIs that do not fit, from when on
}

// NewHalter returns a Halter that remembers nothing yet.
func NewHalter(r *Reconciler) *Halter {
	return &Halter{Reconciler: r, since: map[types.NamespacedName]time.Time{}}
}

// haltPatience is how long a VM has to lack room: what ends is not charged any more only
// after some seconds.
const haltPatience = 10 * time.Second

// Reconcile looks at a VMI: in caches, which most of them need nothing more than, and then
// as everything is on the API server. A VM is halted at the second such look.
func (h *Halter) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	vm, why, err := h.lacking(ctx, request.NamespacedName)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	if left := h.patience(request.NamespacedName, vm != nil); left > 0 || vm == nil {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	return reconcile.Result{}, h.halt(ctx, types.NamespacedName{Namespace: request.Namespace, Name: vm.Name}, vm.UID, why)
}

// patience is how long to wait before a VM is halted.
func (h *Halter) patience(name types.NamespacedName, lacks bool) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !lacks {
		delete(h.since, name)
		return 0
	}
	if _, known := h.since[name]; !known {
		h.since[name] = h.Now()
	}
	return h.since[name].Add(haltPatience).Sub(h.Now())
}

// lacking returns the VM that a VMI is of, and what KubeVirt says of it, if there is no room
// for its launcher pod in a quota that keeps something for migrations; otherwise nil.
func (h *Halter) lacking(ctx context.Context, name types.NamespacedName) (*metav1.OwnerReference, string, error) {
	if _, waits, err := h.waits(ctx, name, h.glance()); err != nil || !waits {
		return nil, "", err
	}
	vmi := &kubevirtv1.VirtualMachineInstance{}
	if err := h.Live.Get(ctx, name, vmi); err != nil {
		return nil, "", err
	}
	owner, why := metav1.GetControllerOf(vmi), rejectedBecause(vmi)
	if why == "" || owner == nil || owner.Kind != "VirtualMachine" || vmi.DeletionTimestamp != nil || !begins(vmi) {
		return nil, "", nil
	}
	accounts, waits, err := h.waits(ctx, name, h.lastLook())
	holds := func(r quota.Rejection) bool { return r.StillLacking(accounts) }
	if err != nil || !waits || !slices.ContainsFunc(quota.Rejections(why), holds) {
		return nil, "", err
	}
	return owner, why, nil
}

// waits says whether a VMI has no launcher pod, while a quota of its namespace keeps
// something for migrations, and returns the accounts of all quotas.
func (h *Halter) waits(ctx context.Context, name types.NamespacedName, at look) ([]quota.Account, bool, error) {
	s, err := h.read(ctx, name.Namespace, at)
	if err != nil {
		return nil, false, err
	}
	of := slices.IndexFunc(s.VMIs, func(v quota.VMI) bool { return v.Name == name.Name })
	if of < 0 || slices.ContainsFunc(s.Pods, func(pod *corev1.Pod) bool {
		return pod.Labels[kubevirtv1.CreatedByLabel] == string(s.VMIs[of].UID) && quota.Charged(pod, s.Now)
	}) {
		return nil, false, nil
	}
	accounts, _ := quota.Accounts(s, h.Options)
	return accounts, slices.ContainsFunc(accounts, quota.Account.KeepsForMigrations), nil
}

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
			strings.Contains(c.Message, quota.Exceeded) {
			return c.Message
		}
	}
	return ""
}

// halt sets a VM's run strategy, if it is still the same VM, and tells why.
func (h *Halter) halt(ctx context.Context, name types.NamespacedName, uid types.UID, why string) error {
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
	err = h.Client.Patch(ctx, vm, client.RawPatch(types.MergePatchType, patch))
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("halting VM %s: %w", name, err)
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
func (h *Halter) haltPatch(vm *kubevirtv1.VirtualMachine, why string) ([]byte, error) {
	return json.Marshal(map[string]any{
		"metadata": map[string]any{
			"resourceVersion": vm.ResourceVersion,
			"annotations":     map[string]string{h.Options.Prefix + quota.HaltedName: why},
		},
		"spec": map[string]any{"running": nil, "runStrategy": kubevirtv1.RunStrategyHalted},
	})
}
