package hook

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/api/resource"
)

// vmi is what a VMI tells that its domain XML does not: KubeVirt writes huge pages without
// their size, and makes a guest a real-time one after its start.
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

// readVMI leaves empty what cannot be read: a VMI says nothing that has to be known.
func readVMI(text []byte) (v vmi) {
	_ = json.Unmarshal(text, &v)
	return v
}

// name is for the log alone.
func (v vmi) name() string {
	if v.Metadata.Name == "" {
		return "unknown"
	}
	return v.Metadata.Namespace + "/" + v.Metadata.Name
}

// hugePage is the size of the VM's huge pages in MiB, 0 where it has none.
func (v vmi) hugePage() int64 {
	size, err := resource.ParseQuantity(v.Spec.Domain.Memory.Hugepages.PageSize)
	if err != nil {
		return 0
	}
	return size.Value() >> 20
}
