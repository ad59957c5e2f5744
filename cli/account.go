package cli

import (
	"fmt"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
)

// account formats the node's granted lockable memory.
func account(a agentapi.Account) string {
	text := api.Bytes(a.Granted).String()
	if a.Max > 0 {
		text += " of " + api.Bytes(a.Max).String()
	}
	if a.Unlimited > 0 {
		text += fmt.Sprintf("; launchers without limit: %d", a.Unlimited)
	}
	return text
}
