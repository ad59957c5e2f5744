package launcher

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api"
)

const (
	// hook is the program that the agent shows a launcher.
	hook = "/run/mooring/hook"

	// between is what the agent waits for longer than the guest is given by whoever asks it.
	between = 15 * time.Second

	// least is by how much the one has to be longer than the other.
	least = 5 * time.Second

	// after is what the pod gets when the agent's grace period is over: for the VM to be
	// ended by force, and for the launcher to end.
	after = 45 * time.Second

	// mostGrace is the longest grace period that a node allows unless its policy says more.
	mostGrace = time.Hour
)

// addPreStop adds the preStop hook to the launcher.
func (m *mutation) addPreStop() {
	if !m.wishes.preStop {
		return
	}
	c := m.container()
	want := &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: m.preStop()}}
	switch {
	case c.Lifecycle == nil:
		c.Lifecycle = &corev1.Lifecycle{PreStop: want}
	case c.Lifecycle.PreStop == nil:
		c.Lifecycle.PreStop = want
	case !equality.Semantic.DeepEqual(c.Lifecycle.PreStop, want):
		m.warn("container %q has a preStop hook, which stays as it is", m.name)
		return
	}
	m.raiseGrace()
}

// preStop is the command of the hook. With a sidecar beside the launcher that asks the
// guest; without, the hook has to.
func (m *mutation) preStop() []string {
	command := []string{hook, "prestop"}
	if _, ok, _ := api.Sidecar(m.pod.Annotations); ok {
		return command
	}
	return append(command, "--", "virsh", "--connect", m.libvirtURI(), "shutdown", "--mode", "acpi", m.VMI.Namespace+"_"+m.VMI.Name)
}

// graces are how long the agent waits for the VM, and how long who asks the guest does.
func (m *mutation) graces() (agent, vm time.Duration) {
	vm = seconds(kubevirtv1.DefaultGracePeriodSeconds)
	if s := m.VMI.Spec.TerminationGracePeriodSeconds; s != nil {
		vm = seconds(*s)
	}
	agent = min(vm+between, mostGrace)
	if request, err := api.Parse(m.pod.Annotations, m.name); err == nil && request.GracePeriod != nil {
		agent = *request.GracePeriod
	}
	return agent, max(min(vm, agent-least), time.Second)
}

// raiseGrace has the agent wait for longer than the guest is given, and kubelet for longer
// than the agent. What the pod asks for stays.
func (m *mutation) raiseGrace() {
	agent, _ := m.graces()
	if _, _, ok := api.Effective(m.pod.Annotations, api.GracePeriodKey, m.name); !ok {
		m.pod.Annotations[api.GracePeriodKey] = agent.String()
	}
	want := int64((agent + after) / time.Second)
	if now := m.pod.Spec.TerminationGracePeriodSeconds; now == nil || *now < want {
		m.pod.Spec.TerminationGracePeriodSeconds = &want
	}
}
