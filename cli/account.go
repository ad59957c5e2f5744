package cli

import (
	"fmt"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
)

// account formats the node's account of lockable memory.
func account(a agentapi.Account) string {
	text := api.Bytes(a.Granted).String()
	if a.Max > 0 {
		text += " of " + api.Bytes(a.Max).String()
	}
	if a.Unlimited > 0 {
		text += fmt.Sprintf("; launchers with an unlimited lock: %d", a.Unlimited)
	}
	if a.Unbounded > 0 {
		text += fmt.Sprintf("; launchers that no memory limit bounds: %d", a.Unbounded)
	}
	return text
}
