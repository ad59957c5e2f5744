package plugin

import (
	"math"

	nri "github.com/containerd/nri/pkg/api"
)

// hugePageLimit is the limit of a pod's huge pages in bytes. If the limit is unknown, bytes is an
// upper bound, and unknown is the error.
type hugePageLimit struct {
	bytes   int64
	unknown error
}

// hugePages returns the limit of a pod's huge pages, which kubelet sets for the pod's cgroup. The
// list of containers lacks it, because containerd drops it by default.
func (p *Plugin) hugePages(pod *nri.PodSandbox) hugePageLimit {
	if p.HugePages == nil {
		return hugePageLimit{}
	}
	bytes, err := p.HugePages(podCgroup(pod.GetLinux().GetCgroupParent()))
	if err == nil {
		return hugePageLimit{bytes: bytes}
	}
	bytes = p.nodeHugePages()
	p.Logger.Warn("cannot read the huge-page limit of a pod: the node's account has an upper bound",
		"pod", pod.GetNamespace()+"/"+pod.GetName(), "bytes", bytes, "error", err)
	return hugePageLimit{bytes: bytes, unknown: err}
}

// nodeHugePages returns an upper bound, in bytes, of the huge pages that all pods of the node may
// have together: the node's pools, or the node's memory if the pools are unreadable.
func (p *Plugin) nodeHugePages() int64 {
	if p.HugePages == nil {
		return 0
	}
	bytes, err := p.HugePages("/")
	switch {
	case err == nil:
		return bytes
	case p.NodeMemory > 0:
		return p.NodeMemory
	}
	return math.MaxInt64
}
