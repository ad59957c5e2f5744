package decide

import (
	"fmt"
	"strconv"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/memlock"
	"github.com/mooring-vm/mooring/memlock/kubevirt"
)

// KubeVirtOverheadKey is the annotation in which KubeVirt 1.8 and newer write the overhead of a
// launcher pod, in bytes. It is exact, unlike an estimate.
const KubeVirtOverheadKey = "kubevirt.io/memory-overhead-bytes"

const mib = 1 << 20

// estimate is the name of an estimated term. libvirt's sum for devices has none.
const estimate = "launcher's overhead, estimated"

func isEstimate(t memlock.Term) bool { return t.Name == estimate }

// overhead returns the launcher's memory beyond the guest's: from [api.OverheadKey], or else from
// [KubeVirtOverheadKey], or else estimated.
//
// The estimate is KubeVirt's overhead for a VM with this guest memory and as many CPUs as the
// container may use, rounded up to a MiB. It omits KubeVirt's GiB for VFIO devices. libvirt's sum
// for devices contains it and is the minimum of a launcher with devices.
func (d *decider) overhead(request api.Request) ([]memlock.Term, error) {
	if request.GuestMemory == nil || !memlock.Required(request) {
		return nil, nil
	}
	if request.Overhead != nil {
		return []memlock.Term{{Name: "launcher's overhead", Bytes: int64(*request.Overhead)}}, nil
	}
	if text, ok := d.facts.Annotations[KubeVirtOverheadKey]; ok {
		bytes, err := strconv.ParseInt(text, 10, 64)
		if err != nil || bytes < 0 {
			return nil, fmt.Errorf("annotation %s: %s: want KubeVirt's number of bytes, or no "+
				"such annotation",
				KubeVirtOverheadKey, api.Quote(text))
		}
		name := "launcher's overhead, by " + KubeVirtOverheadKey
		return []memlock.Term{{Name: name, Bytes: bytes}}, nil
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
	return []memlock.Term{{Name: estimate,
		Bytes: (bytes + mib - 1) / mib * mib}}, nil
}

// kubevirtArchitecture returns the architecture if KubeVirt's overhead depends on it. Empty: it
// does not.
func kubevirtArchitecture(name string) string {
	if name == "arm64" {
		return name
	}
	return ""
}
