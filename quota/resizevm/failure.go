package resizevm

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/internal/plaintext"
)

// reportedAfter is the time after which failures are reported: a restart of the API server is
// shorter.
const reportedAfter = 10 * time.Second

// reportFailure writes a status about requests that fail for some time: one status, even if the
// texts of the errors differ. Each write would cause the next attempt at once.
func (r *Reconciler) reportFailure(
	ctx context.Context, vm *metav1.PartialObjectMetadata, failure error,
) error {
	since := r.failsSince(types.NamespacedName{Namespace: vm.Namespace, Name: vm.Name})
	if r.Now().Sub(since) < reportedAfter {
		return nil
	}
	status := failureStatus(vm.Annotations)
	last, _ := statusIn(vm.Annotations)
	if status == nil || last.Reason == status.Reason && last.Desired == status.Desired &&
		last.Kept == status.Kept && last.Request == status.Request {
		return nil
	}
	status.Since = wholeSeconds(since)
	status.Message = plaintext.OneLine(failure.Error()) + ". mooring-controller retries"
	return r.report(ctx, &kubevirtv1.VirtualMachine{ObjectMeta: vm.ObjectMeta}, status)
}

// failureStatus returns a status from the annotations of a VM alone; nil: they show no size.
func failureStatus(annotations map[string]string) *api.ResizeStatus {
	desired, err := api.ParseVMSize(annotations)
	last, _ := statusIn(annotations)
	status := &api.ResizeStatus{Reason: api.ResizeAPIError, Desired: api.AmountsOf(desired),
		Request: api.ResizeRequest(annotations), Kept: lastKept(last, desired)}
	var none api.ResizeAmounts
	if err == nil && status.Desired == none && status.Kept == none {
		return nil
	}
	return status
}

// failsSince returns the time of the first failure of a VM without a success afterwards.
func (r *Reconciler) failsSince(name types.NamespacedName) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.failing[name]; !ok {
		r.failing[name] = r.Now()
	}
	return r.failing[name]
}

func (r *Reconciler) succeeded(name types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.failing, name)
}

func wholeSeconds(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }
