package plugin_test

import (
	"testing"

	nri "github.com/containerd/nri/pkg/api"

	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide/decidetest"
)

// withDevices adds character devices to a container.
func withDevices(ctr *nri.Container, paths []string) *nri.Container {
	for _, path := range paths {
		ctr.Linux.Devices = append(ctr.Linux.Devices, &nri.LinuxDevice{Path: path, Type: "c"})
	}
	return ctr
}

// The devices of a new container, and of a running one after a restart of the agent, show whether
// its pinned pages belong to iommufd.
func TestDeviceOfIOMMUFD(t *testing.T) {
	for name, c := range map[string]struct {
		devices []string
		want    bool
	}{
		"none":        {nil, false},
		"VFIO":        {[]string{"/dev/vfio/vfio", "/dev/vfio/12"}, false},
		"iommufd":     {[]string{"/dev/kvm", "/dev/iommu", "/dev/vfio/devices/vfio0"}, true},
		"vDPA":        {[]string{"/dev/vhost-vdpa-0"}, false},
		"both":        {[]string{"/dev/iommu", "/dev/vhost-vdpa-0"}, false},
		"RDMA beside": {[]string{"/dev/infiniband/uverbs0", "/dev/iommu"}, false},
	} {
		n := newNode(t, policy.Enforce)
		pod := newPod("new", decidetest.VFIO())
		created := withDevices(newContainer(pod, "compute"), c.devices)
		_, err := n.create(pod, created)
		must(t, err)
		old := newPod("old", decidetest.VFIO())
		running := withDevices(n.running(old, 100, 0), c.devices)
		must(t, n.PostStartContainer(t.Context(), old, running))
		for _, pod := range []*nri.PodSandbox{pod, old} {
			if got := n.launcher(t, pod).PinsByIOMMUFD; got != c.want {
				t.Errorf("%s: launcher of %s by iommufd %t, want %t", name, pod.GetName(), got, c.want)
			}
		}
	}
}
