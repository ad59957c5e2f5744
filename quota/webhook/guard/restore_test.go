package guard_test

import (
	"encoding/json"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubevirtv1 "kubevirt.io/api/core/v1"
	instancetypev1beta1 "kubevirt.io/api/instancetype/v1beta1"
	snapshotv1beta1 "kubevirt.io/api/snapshot/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/quota/webhook/guard"
)

// as returns an object of a kind missing from the scheme.
func as(t *testing.T, kind schema.GroupVersionKind, o client.Object) *unstructured.Unstructured {
	t.Helper()
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: object}
	u.SetGroupVersionKind(kind)
	return u
}

// snapshotOf returns a snapshot and its content.
func snapshotOf(t *testing.T, v *kubevirtv1.VirtualMachine) []client.Object {
	snapshot := &snapshotv1beta1.VirtualMachineSnapshot{ObjectMeta: inVMs("then")}
	snapshot.Status = &snapshotv1beta1.VirtualMachineSnapshotStatus{
		VirtualMachineSnapshotContentName: new("content")}
	content := &snapshotv1beta1.VirtualMachineSnapshotContent{ObjectMeta: inVMs("content")}
	content.Spec.Source.VirtualMachine = &snapshotv1beta1.VirtualMachine{Spec: v.Spec}
	kinds := snapshotv1beta1.SchemeGroupVersion
	return []client.Object{
		as(t, kinds.WithKind("VirtualMachineSnapshot"), snapshot),
		as(t, kinds.WithKind("VirtualMachineSnapshotContent"), content),
	}
}

func restore(kind string) *snapshotv1beta1.VirtualMachineRestore {
	r := &snapshotv1beta1.VirtualMachineRestore{ObjectMeta: inVMs("again")}
	r.Spec.VirtualMachineSnapshotName = "then"
	r.Spec.Target = corev1.TypedLocalObjectReference{APIGroup: new("kubevirt.io"), Kind: kind,
		Name: "web"}
	return r
}

func TestRestores(t *testing.T) {
	deprecated := edit(vm(always, "1Gi"), func(v *kubevirtv1.VirtualMachine) {
		v.Spec.RunStrategy, v.Spec.Running = nil, new(true)
	})
	for name, test := range map[string]struct {
		target *kubevirtv1.VirtualMachine
		then   string // memory of the VM in the snapshot
		kind   string
		why    []string
	}{
		"starts": {vm(always, "1Gi"), "3Gi", "VirtualMachine", nil},
		"starts, large then": {vm(always, "1Gi"), "4Gi", "VirtualMachine",
			append(large()[1:], "as snapshot then has it")},
		"starts, large now":                {vm(always, "4Gi"), "1Gi", "VirtualMachine", nil},
		"stays halted":                     {vm(halted, "1Gi"), "4Gi", "VirtualMachine", nil},
		"is halted by KubeVirt":            {deprecated, "4Gi", "VirtualMachine", nil},
		"of something else":                {vm(always, "1Gi"), "4Gi", "Something", nil},
		"makes a VM, which KubeVirt halts": {nil, "4Gi", "VirtualMachine", nil},
	} {
		t.Run(name, func(t *testing.T) {
			objects := append(snapshotOf(t, vm(always, test.then)), namespace(), quiet(),
				kubevirtObject())
			if test.target != nil {
				objects = append(objects, test.target)
			}
			w := newWorld(t, objects...)
			want(t, guard.NewRestore(w.guard).Handle(t.Context(),
				ask(t, admissionv1.Create, nil, restore(test.kind))), test.why...)
		})
	}
}

// TestRestoreOfASnapshotWithoutContent uses the VM unchanged.
func TestRestoreOfASnapshotWithoutContent(t *testing.T) {
	snapshot := as(t, snapshotv1beta1.SchemeGroupVersion.WithKind("VirtualMachineSnapshot"),
		&snapshotv1beta1.VirtualMachineSnapshot{ObjectMeta: inVMs("then")})
	w := newWorld(t, namespace(), quiet(), kubevirtObject(), vm(always, "4Gi"), snapshot)
	want(t, guard.NewRestore(w.guard).Handle(t.Context(),
		ask(t, admissionv1.Create, nil, restore("VirtualMachine"))), large()[1:]...)
}

func TestRestoreOfNoSnapshot(t *testing.T) {
	w := newWorld(t, namespace(), quiet(), kubevirtObject(), vm(always, "4Gi"))
	got := guard.NewRestore(w.guard).Handle(t.Context(),
		ask(t, admissionv1.Create, nil, restore("VirtualMachine")))
	if !got.Allowed || len(got.Warnings) != 1 {
		t.Errorf("got %+v: want one warning", got)
	}
}

// size is an instance type too large for the quotas here.
func size(memory string) instancetypev1beta1.VirtualMachineInstancetypeSpec {
	return instancetypev1beta1.VirtualMachineInstancetypeSpec{
		CPU:    instancetypev1beta1.CPUInstancetype{Guest: 2},
		Memory: instancetypev1beta1.MemoryInstancetype{Guest: resource.MustParse(memory)},
	}
}

// TestInstanceTypes: in the VM's namespace, in the cluster, and from the revision saved for the VM.
func TestInstanceTypes(t *testing.T) {
	kinds := instancetypev1beta1.SchemeGroupVersion
	local := as(t, kinds.WithKind("VirtualMachineInstancetype"),
		&instancetypev1beta1.VirtualMachineInstancetype{ObjectMeta: inVMs("size"),
			Spec: size("4Gi")})
	global := as(t, kinds.WithKind("VirtualMachineClusterInstancetype"),
		&instancetypev1beta1.VirtualMachineClusterInstancetype{Spec: size("4Gi")})
	global.SetName("size")
	text, err := json.Marshal(&instancetypev1beta1.VirtualMachineInstancetype{Spec: size("4Gi")})
	if err != nil {
		t.Fatal(err)
	}
	revision := &appsv1.ControllerRevision{ObjectMeta: inVMs("kept"),
		Data: runtime.RawExtension{Raw: text}}
	preference := as(t, kinds.WithKind("VirtualMachineClusterPreference"),
		&instancetypev1beta1.VirtualMachineClusterPreference{})
	preference.SetName("taste")

	typed := func(kind, revision string,
		ref *kubevirtv1.InstancetypeStatusRef) *kubevirtv1.VirtualMachine {
		v := vm(always, "1Gi")
		v.Spec.Template.Spec.Domain = kubevirtv1.DomainSpec{}
		v.Spec.Instancetype = &kubevirtv1.InstancetypeMatcher{Name: "size", Kind: kind,
			RevisionName: revision}
		v.Status.InstancetypeRef = ref
		return v
	}
	kept := &kubevirtv1.InstancetypeStatusRef{Name: "size",
		ControllerRevisionRef: &kubevirtv1.ControllerRevisionRef{Name: "kept"}}
	stale := &kubevirtv1.InstancetypeStatusRef{Name: "before",
		ControllerRevisionRef: &kubevirtv1.ControllerRevisionRef{Name: "gone"}}
	for name, test := range map[string]struct {
		vm *kubevirtv1.VirtualMachine
		in client.Object
	}{
		"of the namespace":         {typed("VirtualMachineInstancetype", "", nil), local},
		"plural":                   {typed("virtualmachineinstancetypes", "", nil), local},
		"of the cluster":           {typed("VirtualMachineClusterInstancetype", "", nil), global},
		"of the cluster again":     {typed("", "", nil), global},
		"a revision":               {typed("", "kept", nil), revision},
		"a revision that was kept": {typed("", "", kept), revision},
		"changed since":            {typed("", "", stale), global},
	} {
		t.Run(name, func(t *testing.T) {
			test.vm.Spec.Preference = &kubevirtv1.PreferenceMatcher{Name: "taste"}
			h := guard.NewVM(newWorld(t, namespace(), quiet(), kubevirtObject(), test.in,
				preference).guard)
			want(t, h.Handle(t.Context(), ask(t, admissionv1.Create, nil, test.vm)), large()...)
			h = guard.NewVM(newWorld(t, namespace(), quiet(), kubevirtObject(), preference).guard)
			if got := h.Handle(t.Context(),
				ask(t, admissionv1.Create, nil, test.vm)); !got.Allowed || len(got.Warnings) != 1 {
				t.Errorf("without it: got %+v: want one warning", got)
			}
		})
	}
}
