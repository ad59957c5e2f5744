package cli

import (
	"fmt"
	"slices"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
)

// worsePins returns the less favourable way to count pinned pages.
func worsePins(a, b agentapi.PinnedPer) agentapi.PinnedPer {
	order := []agentapi.PinnedPer{"", agentapi.PerProcess, agentapi.PerUnknown, agentapi.PerEither,
		agentapi.PerUser}
	if slices.Index(order, a) > slices.Index(order, b) {
		return a
	}
	return b
}

// pinText warns of a VM process whose memory lock may bound the pinned memory of other VMs, too.
// It is empty for other VM processes.
func pinText(vm agentapi.VM) string {
	if vm.Usage == nil {
		return ""
	}
	text := fmt.Sprintf("process %d has %s pinned", vm.PID, api.Bytes(vm.Usage.Pinned))
	switch vm.Usage.PinnedPer {
	case agentapi.PerUser:
		return text + " by iommufd, which the kernel counts per user: the memory lock must cover " +
			"all VMs of the user (docs/explanation/iommufd.md)"
	case agentapi.PerEither:
		return text + " by iommufd, and has locked memory as well: the kernel counts the pages per " +
			"process or per user, and per user the memory lock must cover all VMs of the user " +
			"(docs/explanation/iommufd.md)"
	case agentapi.PerUnknown:
		return text + ", and the agent cannot see whether by iommufd, which may count per user: " +
			"run mooring doctor as root on the node"
	}
	return ""
}

// pinTexts returns the warnings about the VM processes of a launcher.
func pinTexts(l agentapi.Launcher) (texts []string) {
	for _, vm := range l.VMs {
		if text := pinText(vm); text != "" {
			texts = append(texts, text)
		}
	}
	return texts
}

// pinNotes returns the warnings about VM processes, with their pods.
func pinNotes(launchers []nodeLauncher) (notes []string) {
	for _, l := range launchers {
		for _, text := range pinTexts(l.Launcher) {
			notes = append(notes, l.Pod.Namespace+"/"+l.Pod.Name+": "+text)
		}
	}
	return notes
}
