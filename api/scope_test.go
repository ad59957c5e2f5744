package api

import "testing"

// A look-up of a key without scope, and of a missing one, allocates nothing.
func TestEffectiveWithoutScopeAllocatesNothing(t *testing.T) {
	annotations := map[string]string{GuestMemoryKey: "4Gi"}
	for key, want := range map[string]bool{GuestMemoryKey: true, DevicesKey: false} {
		ok := false
		allocations := testing.AllocsPerRun(100, func() {
			_, _, ok = Effective(annotations, key, "compute-of-a-long-name")
		})
		if ok != want || allocations != 0 {
			t.Errorf("%s: found %t, want %t; %v allocations, want none", key, ok, want, allocations)
		}
	}
}
