package podserver

import "github.com/mooring-vm/mooring/api/podapi"

// Headroom implements [Pod]. It works before the launcher exists, because a hook asks for it during
// the definition of the VM.
func (p *pod) Headroom() podapi.Headroom {
	return podapi.Headroom(p.node.Policy.Get().Headroom)
}
