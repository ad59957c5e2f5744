package decide_test

import (
	"testing"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide"
	"github.com/mooring-vm/mooring/decide/decidetest"
	"github.com/mooring-vm/mooring/lifecycle"
)

// What a VM may ever lock is what its rule allows, whatever its launcher asked for.
func TestCeiling(t *testing.T) {
	tenant, vague, stranger := facts("tenant-1", nil), facts("accounts", nil), facts("none", nil)
	endless, beyond := facts("trusted", nil), facts("trusted", decidetest.VFIO())
	endless.MemoryLimit = 0
	beyond.NodeMemory = gi
	bad := facts("trusted", map[string]string{api.GuestMemoryKey: "lots"})
	for name, c := range map[string]struct {
		facts decide.Facts
		want  *lifecycle.Limit
	}{
		"asks for nothing":                   {tenant, limit(16 * gi)},
		"unlimited":                          {facts("trusted", decidetest.VFIO()), limit(lifecycle.Unlimited)},
		"unlimited without a memory limit":   {endless, limit(32 * gi)},
		"unlimited beyond the node's memory": {beyond, limit(32 * gi)},
		"account not known":                  {vague, nil},
		"no rule":                            {stranger, nil},
		"is refused":                         {bad, limit(lifecycle.Unlimited)},
	} {
		got := decide.Container(decidetest.Policy(t, policy.Enforce), c.facts).Ceiling
		if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%s: ceiling %v, want %v", name, got, c.want)
		}
	}
}
