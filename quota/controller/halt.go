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

	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/internal/plaintext"
	"github.com/mooring-vm/mooring/quota"
)

const (
	// ReasonHalted is the reason of the Event on a halted VM.
	ReasonHalted = "InsufficientResourceQuota"
	// ReasonWouldHalt is the reason of the Event on a VM that mode enforce would halt.
	ReasonWouldHalt = "WouldHalt"

	actionHalt = "HaltVM"
)

// Halter halts a VM if a quota that keeps room for migrations rejects its launcher pod. KubeVirt
// would retry forever and take the reserved quota as soon as it is free. It is the second check
// after the admission webhooks, for VMs that bypassed them. If another quota
// rejects the VM, or the VM fits by now, KubeVirt's own retries are enough.
type Halter struct {
	*Reconciler

	mu    sync.Mutex
	since map[types.NamespacedName]time.Time // first sight of each VMI without room
	// reported holds the UIDs of the VMs that mode enforce would halt, by VMI.
	reported map[types.NamespacedName]types.UID
}

// NewHalter returns a Halter.
func NewHalter(r *Reconciler) *Halter {
	return &Halter{Reconciler: r, since: map[types.NamespacedName]time.Time{},
		reported: map[types.NamespacedName]types.UID{}}
}

// minShortage is how long a VM must lack room before it is halted. Kubernetes needs some seconds to
// notice the end of other pods.
const minShortage = 10 * time.Second

// Reconcile checks a VMI in the caches, and if it lacks room also on the API server. It halts the
// VM at the second live check.
func (h *Halter) Reconcile(
	ctx context.Context, request reconcile.Request,
) (reconcile.Result, error) {
	vm, why, err := h.lacking(ctx, request.NamespacedName)
	if client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, err
	}
	if left := h.haltDelay(request.NamespacedName, vm != nil); left > 0 || vm == nil {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	return reconcile.Result{},
		h.halt(ctx, types.NamespacedName{Namespace: request.Namespace, Name: vm.Name}, vm.UID, why)
}

// haltDelay returns the remaining time before a VM is halted.
func (h *Halter) haltDelay(name types.NamespacedName, lacks bool) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !lacks {
		delete(h.since, name)
		delete(h.reported, name)
		return 0
	}
	if _, known := h.since[name]; !known {
		h.since[name] = h.Now()
	}
	return h.since[name].Add(minShortage).Sub(h.Now())
}

// lacking returns the owner VM of a VMI and KubeVirt's rejection message if a quota that keeps room
// for migrations has no room for its launcher pod; otherwise nil.
func (h *Halter) lacking(
	ctx context.Context, name types.NamespacedName,
) (*metav1.OwnerReference, string, error) {
	if _, waits, err := h.waitsForLauncher(ctx, name, h.cacheReaders()); err != nil || !waits {
		return nil, "", err
	}
	vmi := &kubevirtv1.VirtualMachineInstance{}
	if err := h.Live.Get(ctx, name, vmi); err != nil {
		return nil, "", err
	}
	owner, why := metav1.GetControllerOf(vmi), rejectionMessage(vmi)
	if why == "" || owner == nil || owner.Kind != "VirtualMachine" ||
		vmi.DeletionTimestamp != nil || !notScheduled(vmi) {
		return nil, "", nil
	}
	accounts, waits, err := h.waitsForLauncher(ctx, name, h.liveReaders())
	holds := func(r quota.Rejection) bool { return r.StillLacking(accounts) }
	if err != nil || !waits || !slices.ContainsFunc(quota.Rejections(why), holds) {
		return nil, "", err
	}
	return owner, why, nil
}

// waitsForLauncher reports whether a VMI has no launcher pod while a quota of its namespace keeps
// room for migrations. It also returns the accounts of all quotas.
func (h *Halter) waitsForLauncher(
	ctx context.Context, name types.NamespacedName, at readers,
) ([]quota.Account, bool, error) {
	s, err := h.read(ctx, name.Namespace, at)
	if err != nil {
		return nil, false, err
	}
	of := slices.IndexFunc(s.VMIs, func(v quota.VMI) bool { return v.Name == name.Name })
	if of < 0 || slices.ContainsFunc(s.Pods, func(pod *corev1.Pod) bool {
		return pod.Labels[kubevirtv1.CreatedByLabel] == string(s.VMIs[of].UID) &&
			quota.Charged(pod, s.Now)
	}) {
		return nil, false, nil
	}
	accounts, _ := quota.Accounts(s, h.Options)
	return accounts, slices.ContainsFunc(accounts, quota.Account.KeepsForMigrations), nil
}

// notScheduled reports whether a VMI has no node yet.
func notScheduled(vmi *kubevirtv1.VirtualMachineInstance) bool {
	switch vmi.Status.Phase {
	case kubevirtv1.VmPhaseUnset, kubevirtv1.Pending, kubevirtv1.Scheduling:
		return vmi.Status.NodeName == ""
	}
	return false
}

// failedCreate is virt-controller's reason for a pod that it cannot create.
const failedCreate = "FailedCreate"

// rejectionMessage returns virt-controller's message about a launcher pod rejected by a quota. The
// reason covers every failed creation, so only the API server's text shows the quota.
func rejectionMessage(vmi *kubevirtv1.VirtualMachineInstance) string {
	for _, c := range vmi.Status.Conditions {
		if c.Type == kubevirtv1.VirtualMachineInstanceSynchronized &&
			c.Status == corev1.ConditionFalse && c.Reason == failedCreate &&
			strings.Contains(c.Message, quota.Exceeded) {
			return c.Message
		}
	}
	return ""
}

// halt sets a VM's run strategy, if it still is the same VM, and reports the reason.
func (h *Halter) halt(
	ctx context.Context, name types.NamespacedName, uid types.UID, why string,
) error {
	vm := &kubevirtv1.VirtualMachine{}
	if err := h.Live.Get(ctx, name, vm); err != nil {
		return client.IgnoreNotFound(err)
	}
	if vm.UID != uid || vm.DeletionTimestamp != nil || isHalted(vm) {
		return nil
	}
	if h.Options.Observe {
		h.reportWouldHalt(vm, why)
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
	h.Logger.Warn("halted a VM: its launcher pod does not fit beside the room kept for migrations",
		"vm", name.String(), "reason", why)
	note := "halted: its launcher pod does not fit into the quota, which keeps room for " +
		"migrations: " + why
	h.Events.Eventf(vm, nil, corev1.EventTypeWarning, ReasonHalted, actionHalt, "%s",
		plaintext.Cut(note, plaintext.MaxNote))
	return nil
}

// reportWouldHalt reports once which VM mode enforce would halt. KubeVirt names a VMI after its VM.
func (h *Halter) reportWouldHalt(vm *kubevirtv1.VirtualMachine, why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	name := client.ObjectKeyFromObject(vm)
	if h.reported[name] == vm.UID {
		return
	}
	h.reported[name] = vm.UID
	note := policy.Observing + "would halt the VM: its launcher pod does not fit into the quota, " +
		"which keeps room for migrations: " + why
	h.Logger.Info(note, "vm", name.String())
	h.Events.Eventf(vm, nil, corev1.EventTypeWarning, ReasonWouldHalt, actionHalt, "%s",
		plaintext.Cut(note, plaintext.MaxNote))
}

func isHalted(vm *kubevirtv1.VirtualMachine) bool {
	strategy, err := vm.RunStrategy()
	return err != nil || strategy == kubevirtv1.RunStrategyHalted
}

// haltPatch is a merge patch at the resourceVersion of vm. A VM has either spec.running or
// spec.runStrategy.
func (h *Halter) haltPatch(vm *kubevirtv1.VirtualMachine, why string) ([]byte, error) {
	return json.Marshal(map[string]any{
		"metadata": map[string]any{
			"resourceVersion": vm.ResourceVersion,
			"annotations":     map[string]string{h.Options.Prefix + quota.HaltedName: why},
		},
		"spec": map[string]any{"running": nil, "runStrategy": kubevirtv1.RunStrategyHalted},
	})
}
