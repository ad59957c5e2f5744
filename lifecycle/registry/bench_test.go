package registry_test

import (
	"fmt"
	"testing"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

// The cost of a container creation in the registry of a node with 1,000 launchers.
func BenchmarkRegistry(b *testing.B) {
	r := registry.New()
	for i := range 1000 {
		r.Put(newLauncher(fmt.Sprint(i), fmt.Sprintf("id-%d", i), agentapi.StateRunning, 5*gi))
	}
	l := newLauncher("500", "id-500", agentapi.StateRunning, 5*gi)
	for _, method := range []struct {
		name string
		call func()
	}{
		{"Account", func() { r.AccountWithout(l.Key(), l.Container.ID) }},
		{"Find", func() { r.Find(l.Container.ID) }},
		{"HasPod", func() { r.HasPod("unknown") }},
		{"Put", func() { r.Put(l) }},
	} {
		b.Run(method.name, func(b *testing.B) {
			for b.Loop() {
				method.call()
			}
		})
	}
}
