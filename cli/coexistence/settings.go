package coexistence

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-vm/mooring/agent/doctor"
)

// fullRequest is the memoryOvercommit with which a VM requests all of its memory, in percent.
const fullRequest = 100

// checkOvercommit examines memoryOvercommit. Until 1.6.3 virt-api wrote a request below the guest's
// memory into the VM (setDefaultResourceRequests), and virt-handler computed virtqemud's memory
// lock from it (AdjustResources). libvirt cannot raise QEMU's lock beyond that of virtqemud.
func checkOvercommit(s *subject) finding {
	percent := fullRequest
	if dev := s.object.Spec.Configuration.DeveloperConfiguration; dev != nil &&
		dev.MemoryOvercommit > 0 {
		percent = dev.MemoryOvercommit
	}
	found := fmt.Sprintf("spec.configuration.developerConfiguration.memoryOvercommit: %d", percent)
	if percent <= fullRequest || !s.before("1.6.4") {
		return finding{doctor.OK, found, "the memory lock does not depend on it", ""}
	}
	return finding{doctor.Problem, found, "before 1.6.4 virt-handler lowers the memory lock to " +
		"the memory request, which is less than the guest's memory: VMs with devices do not start",
		"give VMs with devices a memory request of the guest's size, or update KubeVirt"}
}

// checkBindings examines network binding plugins. KubeVirt adds their memory to the launcher's
// request and limit (CalculateMemoryOverhead; before 1.8 VMIResourcePredicates).
func checkBindings(s *subject) finding {
	var found []string
	if network := s.object.Spec.Configuration.NetworkConfiguration; network != nil {
		for _, name := range slices.Sorted(maps.Keys(network.Binding)) {
			plugin := network.Binding[name]
			if plugin.ComputeResourceOverhead == nil {
				continue
			}
			memory := plugin.ComputeResourceOverhead.Requests[corev1.ResourceMemory]
			if !memory.IsZero() {
				found = append(found, fmt.Sprintf("spec.configuration.network.binding.%s."+
					"computeResourceOverhead.requests.memory: %s", name, &memory))
			}
		}
	}
	if len(found) == 0 {
		return finding{doctor.OK, "no network binding plugin with memory of its own",
			"the limit of a launcher holds no memory that Mooring does not know", ""}
	}
	return finding{doctor.Note, strings.Join(found, "; "),
		"Mooring does not know this part of a launcher's memory limit: a VM that follows its " +
			"limits grows by it, and the plugin lacks it",
		"resize VMs with such an interface by annotations, without follow-limits"}
}

// checkRuntimeClass examines the RuntimeClass of launchers. Its overhead counts in a quota.
func checkRuntimeClass(s *subject) finding {
	const setting = "spec.configuration.defaultRuntimeClass: "
	name := s.object.Spec.Configuration.DefaultRuntimeClass
	if name == "" {
		return finding{doctor.OK, setting + "none", "launchers have no RuntimeClass", ""}
	}
	return finding{doctor.Note, setting + name,
		"if this RuntimeClass has an overhead, Mooring's estimate of a VM's charge leaves it " +
			"out: the check of a VM passes, and the quota may then reject its launcher",
		"keep room in the quotas, or use a RuntimeClass without overhead"}
}
