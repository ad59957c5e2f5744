package resizevm

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/mooring-vm/mooring/api"
)

// dimension is a part of a VM's size, named after the resource of the launcher for it.
type dimension corev1.ResourceName

const (
	ofVCPUs  = dimension(corev1.ResourceCPU)
	ofMemory = dimension(corev1.ResourceMemory)
)

// dimensions returns all dimensions. Kubernetes resizes their resources in place.
func dimensions() []dimension { return []dimension{ofVCPUs, ofMemory} }

// dimensions returns the dimensions of the desired size for which the condition holds.
func (d *decision) dimensions(where func(dimension) bool) []dimension {
	var all []dimension
	for _, m := range dimensions() {
		if m.of(d.desired) != (api.Size{}) && where(m) {
			all = append(all, m)
		}
	}
	return all
}

// of returns one dimension of a size.
func (m dimension) of(s api.Size) api.Size {
	if m == ofVCPUs {
		return api.Size{VCPUs: s.VCPUs}
	}
	return api.Size{Memory: s.Memory}
}

// rises reports whether resources must grow in this dimension.
func (m dimension) rises(from, to corev1.ResourceRequirements) bool {
	return m.differs(from, to, func(q, want resource.Quantity) bool { return q.Cmp(want) < 0 })
}

// falls reports whether resources are too high in this dimension.
func (m dimension) falls(from, to corev1.ResourceRequirements) bool {
	return m.differs(from, to, func(q, want resource.Quantity) bool { return q.Cmp(want) > 0 })
}

func (m dimension) differs(
	from, to corev1.ResourceRequirements, how func(q, want resource.Quantity) bool,
) (found bool) {
	replace(*from.DeepCopy(), to, func(q, want resource.Quantity, name corev1.ResourceName) bool {
		found = found || dimension(name) == m && how(q, want)
		return false
	})
	return found
}

// readySize returns the desired size of the ready dimensions.
func (d *decision) readySize() api.Size {
	var s api.Size
	for _, m := range d.ready {
		s = merged(s, m.of(d.desired))
	}
	return s
}

// complete reports whether all dimensions of the desired size are ready.
func (d *decision) complete() bool { return d.readySize() == d.desired }

// merged returns a size with the vCPUs and the memory of another one, where it has them.
func merged(s, with api.Size) api.Size {
	if with.VCPUs != 0 {
		s.VCPUs = with.VCPUs
	}
	if with.Memory != 0 {
		s.Memory = with.Memory
	}
	return s
}
