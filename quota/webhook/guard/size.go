package guard

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubevirtv1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/estimate"
	"github.com/mooring-vm/mooring/quota/read"
	"github.com/mooring-vm/mooring/quota/virt"
)

// sizer estimates the launchers of a namespace.
type sizer struct {
	Config
	namespace quota.Snapshot
	ranges    []*corev1.LimitRange
	cluster   virt.Cluster
}

// newSizer reads the LimitRanges of the namespace.
func (c Config) newSizer(
	ctx context.Context, s quota.Snapshot, cluster virt.Cluster,
) (sizer, error) {
	ranges := &corev1.LimitRangeList{}
	err := c.list(ctx, s.Namespace.Name, ranges)
	return sizer{c, s, read.Pointers(ranges.Items), cluster}, err
}

// vm estimates the launcher of a VM.
func (z sizer) vm(
	ctx context.Context, vm *kubevirtv1.VirtualMachine,
) (estimate.Launcher, error) {
	vmi := &kubevirtv1.VirtualMachineInstance{ObjectMeta: *vm.Spec.Template.ObjectMeta.DeepCopy(),
		Spec: *vm.Spec.Template.Spec.DeepCopy()}
	vmi.Namespace, vmi.Name = vm.Namespace, vm.Name
	if err := z.expand(ctx, vm, &vmi.Spec); err != nil {
		return estimate.Launcher{}, err
	}
	return z.instance(vmi)
}

// instance estimates the launcher of an instance.
func (z sizer) instance(vmi *kubevirtv1.VirtualMachineInstance) (estimate.Launcher, error) {
	l, err := estimate.Estimate(estimate.Input{VMI: vmi, Namespace: z.namespace.Namespace,
		Quotas: z.namespace.Quotas, LimitRanges: z.ranges, Cluster: z.cluster, Shim: z.Shim})
	if len(l.Unknown) > 0 {
		z.Logger.Debug("the charge of a launcher may exceed its estimate",
			"namespace", vmi.Namespace, "vm", vmi.Name, "for", strings.Join(l.Unknown, ", "))
	}
	return l, err
}

// expand applies the instance type and the preference of a VM.
func (c Config) expand(
	ctx context.Context, vm *kubevirtv1.VirtualMachine, spec *kubevirtv1.VirtualMachineInstanceSpec,
) error {
	var size *instancetypev1beta1.VirtualMachineInstancetypeSpec
	var preference *instancetypev1beta1.VirtualMachinePreferenceSpec
	var err error
	if m := vm.Spec.Instancetype; m != nil {
		at := reference{m.Name, m.Kind, m.RevisionName, "VirtualMachineInstancetype",
			"VirtualMachineClusterInstancetype"}
		if size, err = find[instancetypev1beta1.VirtualMachineInstancetypeSpec](ctx, c.Live, vm, at,
			vm.Status.InstancetypeRef); err != nil {
			return err
		}
	}
	if m := vm.Spec.Preference; m != nil {
		at := reference{m.Name, m.Kind, m.RevisionName, "VirtualMachinePreference",
			"VirtualMachineClusterPreference"}
		if preference, err = find[instancetypev1beta1.VirtualMachinePreferenceSpec](ctx, c.Live, vm,
			at, vm.Status.PreferenceRef); err != nil {
			return err
		}
	}
	if size != nil || preference != nil {
		estimate.Expand(spec, size, preference)
	}
	return nil
}

// reference is a VM's reference to an instance type or preference, with the possible kinds.
type reference struct{ name, kind, revision, ofNamespace, ofCluster string }

// find reads the spec of an instance type or preference, preferably from the revision saved for the
// VM.
func find[T any](
	ctx context.Context, from client.Reader, vm *kubevirtv1.VirtualMachine, at reference,
	ref *kubevirtv1.InstancetypeStatusRef,
) (*T, error) {
	revision := at.revision
	if revision == "" && ref != nil && ref.Name == at.name && ref.ControllerRevisionRef != nil {
		revision = ref.ControllerRevisionRef.Name
	}
	object := &struct{ Spec T }{}
	if revision != "" {
		kept := &appsv1.ControllerRevision{}
		if err := from.Get(ctx, client.ObjectKey{Namespace: vm.Namespace, Name: revision},
			kept); err != nil {
			return nil, fmt.Errorf("reading ControllerRevision %q of VM %q: %w", revision,
				vm.Name, err)
		}
		if err := json.Unmarshal(kept.Data.Raw, object); err != nil {
			return nil, fmt.Errorf("reading the content of ControllerRevision %q: %w",
				revision, err)
		}
		return &object.Spec, nil
	}
	key, kind := client.ObjectKey{Name: at.name}, at.ofCluster
	if lower := strings.ToLower(at.kind); lower == strings.ToLower(at.ofNamespace) ||
		lower == strings.ToLower(at.ofNamespace)+"s" {
		key.Namespace, kind = vm.Namespace, at.ofNamespace
	}
	return &object.Spec, get(ctx, from, instancetypev1beta1.SchemeGroupVersion.WithKind(kind),
		key, object)
}

// get reads an object as unstructured, so its kind need not be in the scheme.
func get(
	ctx context.Context, from client.Reader, kind schema.GroupVersionKind, key client.ObjectKey,
	into any,
) error {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(kind)
	if err := from.Get(ctx, key, o); err != nil {
		return fmt.Errorf("reading %s %q: %w", kind.Kind, key.Name, err)
	}
	raw, err := o.MarshalJSON()
	if err == nil {
		err = json.Unmarshal(raw, into)
	}
	if err != nil {
		return fmt.Errorf("reading %s %q: %w", kind.Kind, key.Name, err)
	}
	return nil
}
