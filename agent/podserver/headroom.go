package podserver

import "github.com/mooring-vm/mooring/api/podapi"

// Headroom implements [Pod]. It is there before the launcher is: a hook asks for it while
// the VM is being defined.
func (p *pod) Headroom() podapi.Headroom { return p.node.Headroom }
