package plugin

import (
	"strings"

	nri "github.com/containerd/nri/pkg/api"
)

// pinsByIOMMUFD reports whether a container has the device of iommufd, and none of vDPA or RDMA.
// These pin memory, too, and the kernel shows the pages in the same field.
func pinsByIOMMUFD(devices []*nri.LinuxDevice) bool {
	found := false
	for _, d := range devices {
		path := d.GetPath()
		if strings.HasPrefix(path, "/dev/vhost-vdpa") || strings.HasPrefix(path, "/dev/infiniband/") {
			return false
		}
		found = found || path == "/dev/iommu"
	}
	return found
}
