package decide

import (
	"fmt"
	"strconv"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/memlock"
	"github.com/mooring-vm/mooring/memlock/kubevirt"
)

// OverheadKey is the annotation in which KubeVirt 1.8 and newer writes what it added
// to the VM's memory for a launcher pod, in bytes: a fact of the pod, better than
// anything computed.
const OverheadKey = "kubevirt.io/memory-overhead-bytes"

const mib = 1 << 20

// overhead returns what a launcher needs beyond the guest's memory. Where nobody says
// so, it is what KubeVirt counts for a launcher of a VM with that much memory, and as
// many CPUs as the container may use: rounded up to a MiB, for it is an estimate. The
// GiB that KubeVirt counts for VFIO devices is left out: libvirt's sum for devices,
// which is the least that a launcher with devices gets, has it.
func (d *decider) overhead(request api.Request) ([]memlock.Term, error) {
	if request.GuestMemory == nil || !memlock.Required(request) {
		return nil, nil // nothing to add it to: KubeVirt's annotation is not looked at
	}
	if text, ok := d.facts.Annotations[OverheadKey]; ok {
		bytes, err := strconv.ParseInt(text, 10, 64)
		if err != nil || bytes < 0 {
			return nil, fmt.Errorf("annotation %s: %s: want KubeVirt's number of bytes, or no such annotation", OverheadKey, quote(text))
		}
		return []memlock.Term{{Name: "launcher's overhead, by " + OverheadKey, Bytes: bytes}}, nil
	}
	vm := kubevirt.VM{
		Memory:       kubevirt.Memory{Request: *request.GuestMemory},
		CPU:          kubevirt.CPU{LimitMilli: d.facts.CPUs},
		Architecture: kubevirtArchitecture(d.facts.Architecture),
	}
	_, bytes, err := kubevirt.Overhead(vm, kubevirt.Main(), kubevirt.Ratio{})
	if err != nil {
		return nil, err
	}
	return []memlock.Term{{Name: "launcher's overhead, estimated", Bytes: (bytes + mib - 1) / mib * mib}}, nil
}

// kubevirtArchitecture is an architecture of those that KubeVirt counts otherwise than
// the rest, or else empty.
func kubevirtArchitecture(name string) string {
	if name == "arm64" {
		return name
	}
	return ""
}
