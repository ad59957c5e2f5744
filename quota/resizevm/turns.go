package resizevm

import (
	"context"
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/quota/read"
)

// othersWait reports whether a VM that waits for its node gives its quota to other VMs of the
// namespace now. It does so in each second minute while another VM waits for quota. All VMs of the
// namespace give way at the same time, so the largest growth gets its turn, too.
func (r *Reconciler) othersWait(
	ctx context.Context, vm *kubevirtv1.VirtualMachine,
) (bool, error) {
	if r.Now().Minute()%2 == 0 {
		return false, nil
	}
	all := &metav1.PartialObjectMetadataList{}
	all.SetGroupVersionKind(kubevirtv1.SchemeGroupVersion.WithKind("VirtualMachineList"))
	if err := read.List(ctx, r.Client, all, client.InNamespace(vm.Namespace)); err != nil {
		return false, err
	}
	for i := range all.Items {
		if o := &all.Items[i]; o.Name != vm.Name && waitsForQuota(o.Annotations) {
			return true, nil
		}
	}
	return false, nil
}

func waitsForQuota(annotations map[string]string) bool {
	s, ok := statusIn(annotations)
	return ok && s.Reason == api.ResizeNoQuota
}

// statusIn reads the status of a VM from its annotations.
func statusIn(annotations map[string]string) (s api.ResizeStatus, ok bool) {
	err := json.Unmarshal([]byte(annotations[api.ResizeStatusKey]), &s)
	return s, err == nil
}
