package coexistence

import (
	"fmt"
	"slices"
	"strings"

	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/agent/doctor"
)

const (
	// maxHotplugRatio is KubeVirt's default (pkg/virt-config, DefaultMaxHotplugRatio).
	maxHotplugRatio = 4

	// blockSize is KubeVirt's alignment of growing memory
	// (pkg/liveupdate/memory, HotplugBlockAlignmentBytes).
	blockSize = 2 << 20

	sidecarGate = "Sidecar"
	strategy    = "spec.configuration.vmRolloutStrategy: "
	liveUpdate  = "spec.configuration.liveUpdateConfiguration."
)

// remark is one of the reasons in a finding.
type remark struct{ found, means, mend string }

// checkHeadroom examines how far VMs can grow. KubeVirt gives each VM its maximum at the start
// (pkg/defaults, setupHotplug), and Mooring resizes within it.
func checkHeadroom(s *subject) finding {
	if s.before("1.6") {
		return finding{doctor.Unknown, "KubeVirt " + s.version.String(),
			"it is not known how far VMs can grow: the check knows KubeVirt 1.6 and newer", ""}
	}
	config := s.object.Spec.Configuration
	if set := config.VMRolloutStrategy; set != nil &&
		*set != kubevirtv1.VMRolloutStrategyLiveUpdate {
		return s.noLiveUpdate(string(*set))
	}
	set := kubevirtv1.LiveUpdateConfiguration{}
	if config.LiveUpdateConfiguration != nil {
		set = *config.LiveUpdateConfiguration
	}
	if set.MaxHotplugRatio == 0 { // KubeVirt omits 0, and keeps its default
		set.MaxHotplugRatio = maxHotplugRatio
	}
	remarks := append(memoryRemarks(set), cpuRemarks(set)...)
	if len(remarks) == 0 {
		return finding{doctor.OK, strategy + string(kubevirtv1.VMRolloutStrategyLiveUpdate),
			"VMs on amd64 start with room to grow", ""}
	}
	return joined(remarks)
}

// noLiveUpdate describes a KubeVirt without live updates.
func (s *subject) noLiveUpdate(value string) finding {
	f := finding{doctor.Note, strategy + value,
		"VMs start without room to grow: Mooring can make none larger",
		"use LiveUpdate, KubeVirt's default, or the feature gate " + sidecarGate +
			" and a headroom hook sidecar"}
	if s.gate(sidecarGate) {
		f.means = "only VMs with a headroom hook sidecar can grow"
		f.mend = "use LiveUpdate, KubeVirt's default, for all other VMs"
	}
	return f
}

// memoryRemarks follows setupMemoryHotplug and ValidateLiveUpdateMemory.
func memoryRemarks(set kubevirtv1.LiveUpdateConfiguration) []remark {
	largest := set.MaxGuest
	switch {
	case largest == nil && set.MaxHotplugRatio > 1:
		return nil
	case largest == nil:
		return []remark{{fmt.Sprintf("%smaxHotplugRatio: %d", liveUpdate, set.MaxHotplugRatio),
			"VMs without memory.maxGuest cannot grow in memory",
			"raise it, or set memory.maxGuest of VMs"}}
	}
	found := fmt.Sprintf("%smaxGuest: %s", liveUpdate, largest)
	if largest.Value()%blockSize != 0 {
		return []remark{{found, "KubeVirt wants a multiple of 2Mi: VMs without memory.maxGuest " +
			"cannot grow in memory", "use a multiple of 2Mi"}}
	}
	return []remark{{found, "every VM without memory.maxGuest gets this maximum, whatever " +
		"its size: with devices it asks for a memory lock of this size, and a larger VM cannot " +
		"grow in memory",
		"allow the lock in the node policy (memlock.max, memlock.nodeMax), or set " +
			"memory.maxGuest of VMs with devices"}}
}

// cpuRemarks follows setupCPUHotplug.
func cpuRemarks(set kubevirtv1.LiveUpdateConfiguration) []remark {
	const cannot = "VMs without cpu.maxSockets cannot grow in vCPUs"
	const mend = "raise it, or set cpu.maxSockets of VMs"
	switch sockets := set.MaxCpuSockets; {
	case sockets != nil && *sockets > 1:
		return nil
	case sockets != nil && *sockets == 1:
		return []remark{{liveUpdate + "maxCpuSockets: 1", cannot, mend}}
	case set.MaxHotplugRatio > 1:
		return nil
	}
	return []remark{{fmt.Sprintf("%smaxHotplugRatio: %d", liveUpdate, set.MaxHotplugRatio),
		cannot, mend}}
}

// joined makes a note of all remarks. Equal texts appear once.
func joined(remarks []remark) finding {
	var found, means, mend []string
	add := func(list *[]string, text string) {
		if !slices.Contains(*list, text) {
			*list = append(*list, text)
		}
	}
	for _, r := range remarks {
		add(&found, r.found)
		add(&means, r.means)
		add(&mend, r.mend)
	}
	return finding{doctor.Note, strings.Join(found, "; "), strings.Join(means, "; "),
		strings.Join(mend, "; ")}
}
