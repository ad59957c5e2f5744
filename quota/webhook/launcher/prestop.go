package launcher

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api"
)

const (
	// hook is the agent's program in the launcher.
	hook = "/run/mooring/hook"

	// guestMargin is how much longer the agent waits than the guest may take.
	guestMargin = 15 * time.Second

	// minMargin is the smallest margin between the two.
	minMargin = 5 * time.Second

	// podMargin is the pod's time after the agent's grace period, for the forced end of the VM and
	// for the end of the launcher.
	podMargin = 45 * time.Second

	// maxGrace is the longest grace period allowed by a node without a larger limit in its policy.
	maxGrace = time.Hour
)

// addPreStop adds the preStop hook to the launcher.
func (m *mutation) addPreStop() {
	if !m.options.preStop {
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
		m.warn("container %q keeps its own preStop hook", m.name)
		return
	}
	m.raiseGracePeriods()
}

// preStop returns the hook's command. A sidecar asks the guest to shut down. Without one the hook
// does.
func (m *mutation) preStop() []string {
	command := []string{hook, "prestop"}
	if _, ok, _ := api.Sidecar(m.pod.Annotations); ok {
		return command
	}
	return append(command, "--", "virsh", "--connect", m.libvirtURI(), "shutdown", "--mode", "acpi",
		m.VMI.Namespace+"_"+m.VMI.Name)
}

// gracePeriods returns how long the agent waits for the VM, and how long the guest may take.
func (m *mutation) gracePeriods() (agent, vm time.Duration) {
	vm = seconds(kubevirtv1.DefaultGracePeriodSeconds)
	if s := m.VMI.Spec.TerminationGracePeriodSeconds; s != nil {
		vm = seconds(*s)
	}
	agent = min(vm+guestMargin, maxGrace)
	if request, err := api.Parse(m.pod.Annotations, m.name); err == nil &&
		request.GracePeriod != nil {
		agent = *request.GracePeriod
	}
	return agent, max(min(vm, agent-minMargin), time.Second)
}

// raiseGracePeriods makes the agent wait longer than the guest may take, and kubelet longer than
// the agent. It keeps longer periods from the pod.
func (m *mutation) raiseGracePeriods() {
	agent, _ := m.gracePeriods()
	if _, _, ok := api.Effective(m.pod.Annotations, api.GracePeriodKey, m.name); !ok {
		m.pod.Annotations[api.GracePeriodKey] = agent.String()
	}
	want := int64((agent + podMargin) / time.Second)
	if now := m.pod.Spec.TerminationGracePeriodSeconds; now == nil || *now < want {
		m.pod.Spec.TerminationGracePeriodSeconds = &want
	}
}
