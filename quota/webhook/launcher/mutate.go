package launcher

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/memlock/kubevirt"
	"github.com/mooring-vm/mooring/memlock/kubevirt/vmi"
	"github.com/mooring-vm/mooring/quota/virt"
)

// Input is all that [Mutate] decides by. It changes nothing of it.
type Input struct {
	Pod *corev1.Pod // a launcher's, as it came: [IsLauncher]

	// VMI is the instance that the launcher is for.
	VMI *kubevirtv1.VirtualMachineInstance

	// Reserved is what the VMI says in the words that VEP 144 had first: [ReadReserved].
	Reserved Reserved

	// Cluster is the KubeVirt of the cluster.
	Cluster virt.Cluster

	// Namespace are the annotations of the pod's namespace.
	Namespace map[string]string

	// Launchers are the VMI's launcher pods. They are looked at for a migration target
	// alone. LaunchersErr is why they are not known.
	Launchers    []corev1.Pod
	LaunchersErr error

	Shim Shim
}

// Shim is how mooring-shim is added.
type Shim struct {
	// Image is that of mooring-shim. Empty: it is never added.
	Image string
}

// Output is what becomes of a pod.
type Output struct {
	Pod      *corev1.Pod // nil: it is left as it is
	Warnings []string    // for the author of the pod
}

// Refusal is why a launcher must not be made, for people.
type Refusal struct{ Why string }

// Error implements error.
func (r *Refusal) Error() string { return r.Why }

// Mutate returns what becomes of a launcher pod. It is pure, and idempotent: the Output's
// pod, as the Input of a second pass, is left as it is.
//
// What cannot be done because something is wrong with the VM or its annotations is a
// warning, and the pod is left as it is: the agent tells whoever looks at the pod. The error
// is a [*Refusal]: the pod is the target of a migration of a VM that was resized in place,
// and cannot be given its size.
func Mutate(in Input) (Output, error) {
	m := mutation{Input: in, pod: in.Pod.DeepCopy()}
	err := m.run()
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		return Output{}, refusal
	}
	if err != nil && in.wasResized() {
		return Output{}, cannotBeSized(err)
	}
	if err != nil {
		return Output{Warnings: append(m.warnings, leftAsItIs(err))}, nil
	}
	out := Output{Warnings: m.warnings}
	if m.changed {
		out.Pod = m.pod
	}
	return out, nil
}

func leftAsItIs(err error) string { return "mooring leaves the pod as it is: " + oneLine(err) }

// oneLine is for warnings, which the API server takes no others of.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// mutation is one Mutate.
type mutation struct {
	Input
	pod      *corev1.Pod
	name     string // of the launcher container
	wishes   wishes
	size     size // of the source
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
	m.wish()
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
	if !locked && !m.resizable() && !m.wishes.preStop && !m.size.resized {
		return nil
	}
	return m.apply(vm, lock, locked)
}

// apply writes everything. Its order matters to nobody else: the record is of what came.
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

// compute is what KubeVirt calls the launcher container.
const compute = "compute"

// findLauncher finds the container that runs the VM.
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
		return fmt.Errorf("it has no container %q, which runs the VM", m.name)
	}
	return nil
}

// container is the launcher container, or nil.
func (m *mutation) container() *corev1.Container { return containerOf(m.pod, m.name) }

func containerOf(pod *corev1.Pod, name string) *corev1.Container {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == name {
			return &pod.Spec.Containers[i]
		}
	}
	return nil
}

// setDefault writes an annotation for the whole pod that is not there.
func (m *mutation) setDefault(key, value string) {
	if _, _, ok := api.Effective(m.pod.Annotations, key, ""); !ok {
		m.pod.Annotations[key] = value
	}
}

func (m *mutation) warn(format string, args ...any) {
	m.warnings = append(m.warnings, fmt.Sprintf("mooring: "+format, args...))
}
