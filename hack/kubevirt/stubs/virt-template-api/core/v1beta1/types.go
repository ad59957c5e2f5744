// Package v1beta1 has the types of KubeVirt's templates for virt-controller.
package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ConditionReady is the condition of a usable template.
const ConditionReady = "Ready"

// VirtualMachineTemplate is a template.
type VirtualMachineTemplate struct {
	metav1.TypeMeta
	metav1.ObjectMeta

	Spec   VirtualMachineTemplateSpec
	Status VirtualMachineTemplateStatus
}

// VirtualMachineTemplateSpec is the desired state.
type VirtualMachineTemplateSpec struct {
	VirtualMachine *runtime.RawExtension
	Parameters     []Parameter
}

// VirtualMachineTemplateStatus is the observed state.
type VirtualMachineTemplateStatus struct{ Conditions []metav1.Condition }

// Parameter is a placeholder of a template.
type Parameter struct{ Name, Value string }

// DeepCopy returns the template itself, because there is none to copy.
func (t *VirtualMachineTemplate) DeepCopy() *VirtualMachineTemplate { return t }

// DeepCopyObject makes the template a runtime.Object.
func (t *VirtualMachineTemplate) DeepCopyObject() runtime.Object { return t }
