package kubevirtnode

import (
	"fmt"
	"strings"

	"github.com/mooring-vm/mooring/hack/kubevirt"
)

// format of KubeVirt's configuration: no KVM, time for migrations, and CPU limits for its helper
// containers. With the default of 10 to 15 thousandths of a CPU, each needs half a minute to start
// on an emulated node. The arguments are the list of feature gates, and the image of LockedBinding.
const format = `{
  "developerConfiguration": {"useEmulation": true, "featureGates": ["%s"]},
  "migrations": {"completionTimeoutPerGiB": 3600, "progressTimeout": 3600},
  "permittedHostDevices": {"pciHostDevices": [
    {"pciVendorSelector": "8086:10D3", "resourceName": "` + DeviceResource + `"}
  ]},
  "network": {"binding": {"` + LockedBinding + `": {"sidecarImage": "%s"}}},
  "supportContainerResources": [
    {"type": "container-disk", "resources": {"limits": {"cpu": "2", "memory": "40M"}}},
    {"type": "guest-console-log", "resources": {"limits": {"cpu": "2", "memory": "60M"}}},
    {"type": "sidecar", "resources": {"requests": {"cpu": "10m", "memory": "64M"},
      "limits": {"cpu": "2", "memory": "64M"}}}
  ]
}`

// configuration is the configuration of the chosen KubeVirt, in JSON.
func configuration() string {
	return fmt.Sprintf(format, strings.Join(gates(kubevirt.Minor()), `", "`),
		bindingImage())
}

// gates are the feature gates of a version. 1.9 has the plugin API, and memory locks without a
// device.
func gates(minor string) []string {
	all := []string{"Sidecar", "HostDevices"}
	if minor != "1.7" {
		all = append(all, "Plugins", "ReservedOverheadMemlock")
	}
	return all
}
