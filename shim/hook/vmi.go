package hook

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/api/resource"
)

// vmi holds facts that KubeVirt leaves out of the domain XML: the size of huge pages, and real-time
// vCPUs, which KubeVirt sets after the start.
type vmi struct {
	Metadata struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Domain struct {
			CPU struct {
				Realtime *struct{} `json:"realtime"`
			} `json:"cpu"`
			Memory struct {
				Hugepages struct {
					PageSize string `json:"pageSize"`
				} `json:"hugepages"`
			} `json:"memory"`
		} `json:"domain"`
	} `json:"spec"`
}

// readVMI ignores malformed text, because every field is optional.
func readVMI(text []byte) (v vmi) {
	_ = json.Unmarshal(text, &v)
	return v
}

// name identifies the VMI in the log.
func (v vmi) name() string {
	if v.Metadata.Name == "" {
		return "unknown"
	}
	return v.Metadata.Namespace + "/" + v.Metadata.Name
}

// hugePage returns the size of the VM's huge pages in MiB, or 0 without any.
func (v vmi) hugePage() int64 {
	size, err := resource.ParseQuantity(v.Spec.Domain.Memory.Hugepages.PageSize)
	if err != nil {
		return 0
	}
	return size.Value() >> 20
}
