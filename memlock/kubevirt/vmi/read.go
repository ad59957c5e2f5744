package vmi

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	v1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/mooring-vm/mooring/internal/yamldoc"
	"github.com/mooring-vm/mooring/memlock/kubevirt"
)

// MaxSize is the largest object, in bytes, that Read accepts.
const MaxSize = 2 << 20

const (
	kindVMI = "VirtualMachineInstance"
	kindVM  = "VirtualMachine"
)

// Read reads a VM from one YAML or JSON document: a VirtualMachineInstance, also without a kind, or
// the template of a VirtualMachine. It is strict: errors name unknown fields and duplicate keys.
// Beyond the errors of [FromVMI], Read refuses no document or several, another kind, and malformed
// quantities. It refuses a VirtualMachine with an instance type or a preference, because these
// other objects define parts of the VM.
func Read(data []byte) (kubevirt.VM, error) {
	if len(data) > MaxSize {
		return kubevirt.VM{}, fmt.Errorf("VM of more than %d bytes", MaxSize)
	}
	switch err := yamldoc.CheckOne(data); {
	case errors.Is(err, yamldoc.ErrEmpty):
		return kubevirt.VM{},
			fmt.Errorf("VM: %w: want a VirtualMachineInstance or a VirtualMachine", err)
	case err != nil:
		return kubevirt.VM{}, fmt.Errorf("VM: %w", err)
	}
	asJSON, err := yaml.YAMLToJSONStrict(data)
	if err != nil {
		return kubevirt.VM{}, fmt.Errorf("VM: no valid YAML: %w", err)
	}
	kind, err := kindOf(asJSON)
	if err != nil {
		return kubevirt.VM{}, err
	}
	if kind == kindVM {
		return readVM(asJSON)
	}
	return readVMI(asJSON)
}

func readVMI(asJSON []byte) (kubevirt.VM, error) {
	var vmi vmiObject
	if err := decode(asJSON, &vmi, "spec"); err != nil {
		return kubevirt.VM{}, err
	}
	return fromSpec((*v1.VirtualMachineInstanceSpec)(&vmi.Spec), vmi.Metadata.Annotations, "spec")
}

func readVM(asJSON []byte) (kubevirt.VM, error) {
	var vm vmObject
	if err := decode(asJSON, &vm, "spec", "template", "spec"); err != nil {
		return kubevirt.VM{}, err
	}
	const instead = "want a VirtualMachine without, or its VirtualMachineInstance from the cluster"
	switch {
	case vm.Spec.Template == nil:
		return kubevirt.VM{},
			errors.New("spec.template: missing: want the template of a VirtualMachineInstance")
	case vm.Spec.Instancetype != nil:
		return kubevirt.VM{}, fmt.Errorf("spec.instancetype: %q: another object says what memory "+
			"and CPU there is: %s",
			vm.Spec.Instancetype.Name, instead)
	case vm.Spec.Preference != nil:
		return kubevirt.VM{}, fmt.Errorf("spec.preference: %q: another object says what devices "+
			"there are: %s",
			vm.Spec.Preference.Name, instead)
	}
	read, err := fromSpec((*v1.VirtualMachineInstanceSpec)(&vm.Spec.Template.Spec),
		vm.Spec.Template.Metadata.Annotations, "spec.template.spec")
	read.Template = err == nil
	return read, err
}

// kindOf returns the kind of one of KubeVirt's objects.
func kindOf(asJSON []byte) (string, error) {
	var object struct {
		Kind       *string `json:"kind"`
		APIVersion *string `json:"apiVersion"`
	}
	err := json.Unmarshal(asJSON, &object)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return "", fmt.Errorf("%s: %s: want %s", wrong.Field, wrong.Value, describeType(wrong.Type))
	}
	if err != nil {
		return "", errors.New("VM: want a mapping with the fields of a VirtualMachineInstance or " +
			"a VirtualMachine")
	}
	if object.Kind != nil && strings.HasSuffix(*object.Kind, "List") {
		return "", fmt.Errorf("kind: %q: want one object: kubectl get vmi NAME -o yaml",
			*object.Kind)
	}
	if a := object.APIVersion; a != nil &&
		!slices.Contains([]string{"kubevirt.io/v1", "kubevirt.io/v1alpha3"}, *a) {
		return "", fmt.Errorf("apiVersion: %q: want kubevirt.io/v1", *a)
	}
	switch {
	case object.Kind == nil:
		return kindVMI, nil
	case *object.Kind == kindVMI, *object.Kind == kindVM:
		return *object.Kind, nil
	}
	return "", fmt.Errorf("kind: %q: want VirtualMachineInstance or VirtualMachine", *object.Kind)
}
