package launcher

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/internal/plaintext"
	"github.com/mooring-vm/mooring/memlock/kubevirt"
	"github.com/mooring-vm/mooring/memlock/kubevirt/vmi"
	"github.com/mooring-vm/mooring/quota/virt"
)

// Input holds the inputs of [Mutate], which does not change them.
type Input struct {
	Pod *corev1.Pod // launcher pod of the request: [IsLauncher]

	// VMI is the launcher's instance.
	VMI *kubevirtv1.VirtualMachineInstance

	// Reserved holds the VMI's reservedOverhead in the early format of VEP 144: [ReadReserved].
	Reserved Reserved

	// Cluster holds the settings of the cluster's KubeVirt.
	Cluster virt.Cluster

	// Namespace holds the annotations of the pod's namespace.
	Namespace map[string]string

	// Launchers are the VMI's launcher pods, used for migration targets only. LaunchersErr is the
	// error of reading them.
	Launchers    []corev1.Pod
	LaunchersErr error

	Shim Shim
}

// Shim configures the mooring-shim sidecar.
type Shim struct {
	// Image is the image of mooring-shim. Empty: no sidecar is added.
	Image string
}

// Output is the mutated pod.
type Output struct {
	Pod      *corev1.Pod // nil: unchanged
	Warnings []string    // for the client
}

// Refusal is the reason why a launcher pod is refused.
type Refusal struct{ Why string }

// Error implements error.
func (r *Refusal) Error() string { return r.Why }

// Mutate mutates a launcher pod. It is pure and idempotent: its output, as the input of a second
// pass, stays unchanged.
//
// If the VM or its annotations are invalid, the pod stays unchanged with a warning; the agent
// reports the fault on the pod later. The error is a [*Refusal]: the pod is the migration target of
// a VM that was resized in place, and Mutate cannot give it the VM's size.
func Mutate(in Input) (Output, error) {
	m := mutation{Input: in, pod: in.Pod.DeepCopy()}
	err := m.run()
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		return Output{}, refusal
	}
	if err != nil && in.mayBeResized() {
		return Output{}, refuseUnsized(err)
	}
	if err != nil {
		return Output{Warnings: append(m.warnings, unchangedWarning(err))}, nil
	}
	out := Output{Warnings: m.warnings}
	if m.changed {
		out.Pod = m.pod
	}
	return out, nil
}

func unchangedWarning(err error) string {
	return "mooring leaves the pod unchanged: " + plaintext.OneLine(err.Error())
}

// mutation is one run of Mutate.
type mutation struct {
	Input
	pod      *corev1.Pod
	name     string // of the launcher container
	options  options
	size     size // of the source pod
	changed  bool
	warnings []string
}

func (m *mutation) run() error {
	if err := m.findLauncher(); err != nil {
		return err
	}
	request, err := api.Parse(m.pod.Annotations, m.name)
	if err != nil {
		return err
	}
	m.readOptions()
	if err := m.findSize(); err != nil {
		return err
	}
	vm, err := vmi.FromVMI(m.VMI)
	if err != nil {
		return fmt.Errorf("VirtualMachineInstance %s/%s: %w", m.VMI.Namespace, m.VMI.Name, err)
	}
	vm = m.size.grow(vm)
	lock, locked, err := m.lock(vm, request)
	if err != nil {
		return err
	}
	if !locked && !m.resizable() && !m.options.preStop && !m.size.resized {
		return nil
	}
	return m.apply(vm, lock, locked)
}

// apply writes all changes. It records the resources as they were in the request.
func (m *mutation) apply(vm kubevirt.VM, lock lock, locked bool) error {
	before := m.pod.DeepCopy()
	if m.pod.Annotations == nil {
		m.pod.Annotations = map[string]string{}
	}
	m.setDefault(api.RenderedKey, record(m.container()).String())
	m.applySize()
	if locked {
		if err := m.applyLock(lock); err != nil {
			return err
		}
	}
	m.setDefault(api.LauncherKey, m.name)
	m.setDefault(api.APIVersionKey, api.APIVersion)
	m.requirePlugin()
	m.addSidecar(vm)
	m.addPreStop()
	m.changed = !equality.Semantic.DeepEqual(before, m.pod)
	return nil
}

// compute is KubeVirt's name of the launcher container.
const compute = "compute"

// findLauncher finds the container with the VM.
func (m *mutation) findLauncher() error {
	m.name = compute
	name, ok, err := api.Launcher(m.pod.Annotations)
	if err != nil {
		return err
	}
	if ok {
		m.name = name
	}
	if m.container() == nil {
		return fmt.Errorf("the pod has no container %q, which runs the VM", m.name)
	}
	return nil
}

// container returns the launcher container, or nil.
func (m *mutation) container() *corev1.Container { return containerOf(m.pod, m.name) }

func containerOf(pod *corev1.Pod, name string) *corev1.Container {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == name {
			return &pod.Spec.Containers[i]
		}
	}
	return nil
}

// setDefault writes a missing annotation for the whole pod.
func (m *mutation) setDefault(key, value string) {
	if _, _, ok := api.Effective(m.pod.Annotations, key, ""); !ok {
		m.pod.Annotations[key] = value
	}
}

func (m *mutation) warn(format string, args ...any) {
	m.warnings = append(m.warnings, fmt.Sprintf("mooring: "+format, args...))
}
