package decide_test

import (
	"testing"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/decide"
	"github.com/mooring-vm/mooring/decide/decidetest"
)

// BenchmarkContainer measures the decision without registry and pod directories.
func BenchmarkContainer(b *testing.B) {
	p, err := policy.Parse([]byte(decidetest.NodePolicy))
	if err != nil {
		b.Fatal(err)
	}
	facts := decide.Facts{
		Pod: agentapi.PodRef{Namespace: "trusted", Name: "vm", UID: "uid"}, MemoryLimit: 6 * gi,
		Annotations: decidetest.Launcher(map[string]string{
			"devices.memlock.mooring.dev": "vfio=1", "guest-memory.memlock.mooring.dev": "4Gi",
			"memory.high.cgroup.mooring.dev": "5632Mi",
		}),
	}
	for container, launcher := range map[string]bool{"compute": true, "sidecar": false} {
		b.Run(container, func(b *testing.B) {
			facts.Container = container
			for b.Loop() {
				if d := decide.Container(p, facts); d.Launcher != launcher || d.Refusal != nil {
					b.Fatalf("decision = %+v, want one about a launcher: %t", d, launcher)
				}
			}
		})
	}
}
