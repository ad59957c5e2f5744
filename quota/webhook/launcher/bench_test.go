package launcher

import (
	"slices"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mooring-vm/mooring/api"
)

// The cost of the webhook alone, for a migration target, which needs the most reads. The API
// server's answers come from memory.
func BenchmarkHandle(b *testing.B) {
	source := newSource(resizedTo(resources("400m", "4Gi", "4", "5Gi")))
	h := New(Config{Reader: reader(b, interceptor.Funcs{}, newVMI(withGPUs(2)), &source),
		Shim: Shim{Image: "registry.example.org/mooring-shim:v1"}})
	req := request(b,
		newTarget(map[string]string{api.InjectSidecarKey: "true", api.InjectPreStopKey: "true"}))
	took := make([]time.Duration, 0, b.N)
	for b.Loop() {
		start := time.Now()
		if resp := h.Handle(b.Context(), req); !resp.Allowed || len(resp.Patches) == 0 {
			b.Fatalf("got %+v", resp)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

func BenchmarkMutate(b *testing.B) {
	in := input(newPod(map[string]string{api.InjectSidecarKey: "true",
		api.InjectPreStopKey: "true"}), newVMI(withGPUs(2)))
	for b.Loop() {
		if out, err := Mutate(in); err != nil || out.Pod == nil {
			b.Fatal(err)
		}
	}
}
