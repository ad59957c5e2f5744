package coexistence

import (
	"fmt"
	"slices"
	"strings"

	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/agent/doctor"
	"github.com/mooring-vm/mooring/internal/plaintext"
)

const (
	// virtHandler is the value of KubeVirt's label on pods of virt-handler.
	virtHandler = "virt-handler"

	maxNamed = 5 // nodes in a text
)

// PodSelector selects the pods of [Facts.Pods].
const PodSelector = kubevirtv1.AppLabel + " in (" + virtController + ", " + virtHandler + ")"

// checkNodes finds nodes with virt-handler and without an agent. KubeVirt schedules launchers to
// nodes where virt-handler is ready.
func checkNodes(s *subject) finding {
	if s.PodsErr != nil {
		return finding{doctor.Unknown, plaintext.OneLine(s.PodsErr.Error()),
			"it is not known whether each node that runs VMs has an agent",
			remedy(s.PodsErr, `get the verb "list" for pods in namespace `+s.object.Namespace)}
	}
	all := s.handlerNodes()
	missing := slices.DeleteFunc(slices.Clone(all), func(node string) bool {
		return slices.Contains(s.Agents, node)
	})
	if len(missing) == 0 {
		return finding{doctor.OK, fmt.Sprintf("%d nodes with virt-handler", len(all)),
			"each of them has an agent", ""}
	}
	return finding{doctor.Problem, fmt.Sprintf("no agent on %d of %d nodes with virt-handler: %s",
		len(missing), len(all), shorten(missing)),
		"VMs start there without their limits; with containerd's validator, launchers that " +
			"require the agent do not start there",
		"let the agent's DaemonSet select these nodes, or remove them from " +
			"spec.workloads.nodePlacement"}
}

// handlerNodes returns the nodes with virt-handler in order.
func (s *subject) handlerNodes() []string {
	var nodes []string
	for i := range s.Pods {
		pod := &s.Pods[i]
		if pod.Labels[kubevirtv1.AppLabel] == virtHandler && pod.Spec.NodeName != "" {
			nodes = append(nodes, pod.Spec.NodeName)
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// shorten joins names, the first ones only if there are many.
func shorten(names []string) string {
	if len(names) <= maxNamed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:maxNamed], ", "),
		len(names)-maxNamed)
}
