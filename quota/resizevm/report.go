package resizevm

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/internal/plaintext"
)

// Reasons of Events on a VirtualMachine.
const (
	ReasonResizing    = "VMResizing"
	ReasonResized     = "VMResized"
	ReasonFailed      = "VMResizeFailed"
	ReasonWouldResize = "WouldResizeVM"

	eventAction = "ResizeVM"
	maxNote     = 1024 // bytes, Kubernetes' limit
)

// report writes the status annotation of the VM if it changed, and an Event for news. Without a
// status it removes the annotation.
func (r *Reconciler) report(
	ctx context.Context, vm *kubevirtv1.VirtualMachine, status *api.ResizeStatus,
) error {
	if status != nil && status.Since.IsZero() {
		status.Since = r.reasonSince(vm, status)
	}
	text := statusText(status)
	if r.Options.Observe {
		r.reportObserved(vm, status, text)
		return nil
	}
	before, had := vm.Annotations[api.ResizeStatusKey]
	if text == before && had == (status != nil) {
		return nil
	}
	patch := map[string]*string{api.ResizeStatusKey: nil}
	if status != nil {
		patch[api.ResizeStatusKey] = &text
	}
	if err := r.Client.Patch(ctx, vm.DeepCopy(), annotationsPatch(vm.UID, patch)); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("writing the status of VirtualMachine %s/%s: %w",
			vm.Namespace, vm.Name, err))
	}
	if kind, reason := eventOf(status); reason != "" && news(before, *status) {
		r.event(vm, kind, reason, status.Message)
	}
	return nil
}

// reasonSince returns the start of the reason of a status: that of the last status, or now.
func (r *Reconciler) reasonSince(
	vm *kubevirtv1.VirtualMachine, status *api.ResizeStatus,
) time.Time {
	last, _ := statusIn(vm.Annotations)
	if last.Reason == status.Reason && last.Desired == status.Desired && !last.Since.IsZero() {
		return last.Since
	}
	return wholeSeconds(r.Now())
}

// reportObserved writes an Event for a status that mode enforce would act on.
func (r *Reconciler) reportObserved(
	vm *kubevirtv1.VirtualMachine, status *api.ResizeStatus, text string,
) {
	r.mu.Lock()
	defer r.mu.Unlock()
	name := client.ObjectKeyFromObject(vm)
	before := r.observed[name]
	r.observed[name] = text
	kind, reason := eventOf(status)
	if reason == "" || !news(before, *status) {
		return
	}
	note := fmt.Sprintf("would resize the VM to %s: %s", status.Desired, status.Message)
	r.event(vm, kind, ReasonWouldResize, policy.Observing+note)
}

func (r *Reconciler) event(vm *kubevirtv1.VirtualMachine, kind, reason, note string) {
	r.Logger.Info(note, "reason", reason, "namespace", vm.Namespace, "vm", vm.Name)
	r.Events.Eventf(vm, nil, kind, reason, eventAction, "%s", plaintext.Cut(note, maxNote))
}

func statusText(status *api.ResizeStatus) string {
	if status == nil {
		return ""
	}
	text, err := json.Marshal(status)
	if err != nil {
		panic(err) // only texts and numbers
	}
	return string(text)
}

// eventOf returns type and reason of the Event about a status. A VM that waits has no Event.
func eventOf(status *api.ResizeStatus) (kind, reason string) {
	if status == nil {
		return "", ""
	}
	switch status.Reason {
	case api.ResizeNotRunning, api.ResizeMigrating, api.ResizeKept:
		return "", ""
	case api.ResizeUnderWay:
		return corev1.EventTypeNormal, ReasonResizing
	case api.ResizeDone:
		return corev1.EventTypeNormal, ReasonResized
	}
	return corev1.EventTypeWarning, ReasonFailed
}

// news reports whether a status needs an Event after the one with this text. Progress of the actual
// size and of the free quota needs none.
func news(before string, now api.ResizeStatus) bool {
	var was api.ResizeStatus
	if json.Unmarshal([]byte(before), &was) != nil {
		return true
	}
	if was.Reason != now.Reason || was.Desired != now.Desired {
		return true
	}
	switch now.Reason {
	case api.ResizeInvalid, api.ResizeRefused, api.ResizeFailed:
		return was.Message != now.Message
	}
	return false
}
