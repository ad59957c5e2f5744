package libvirt

import (
	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
)

// owner is the element in a domain's metadata that names the pod of the VM.
type owner struct {
	Namespace string `xml:"namespace,attr"`
	Name      string `xml:"name,attr"`
	UID       string `xml:"uid,attr"`
}

// ownerOf returns the owner in a domain's metadata. An invalid or second element proves no owner,
// and the rest of the record stays usable.
func ownerOf(all []owner) agentapi.PodRef {
	if len(all) != 1 || api.Owner(all[0]).Check() != nil {
		return agentapi.PodRef{}
	}
	return agentapi.PodRef(all[0])
}
