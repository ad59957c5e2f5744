package coordinator_test

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/coordinator"
	"github.com/mooring-vm/mooring/shim/resize"
	"github.com/mooring-vm/mooring/shim/resize/journal"
	"github.com/mooring-vm/mooring/shim/resize/target"
	"github.com/mooring-vm/mooring/shim/virt/virttest"
)

// ownSamplesFile is the environment variable with the name of the file for `bin/bench own-resize`.
const ownSamplesFile = "MOORING_OWN_SAMPLES"

// BenchmarkOwnResize measures the shim's own time of a resize, from the request to the report of
// success. Libvirt, guest and agent are fakes that answer at once. The journal is on a disk.
func BenchmarkOwnResize(b *testing.B) {
	rounds, all := 32, map[string][]float64{}
	if os.Getenv("MOORING_QUICK") != "" {
		rounds = 4
	}
	for kind, desired := range ownResizes() {
		b.Run(kind, func(b *testing.B) {
			for range b.N {
				all[kind] = append(all[kind], measureOwn(b, rounds, desired)...)
			}
			b.ReportMetric(1000*median(all[kind]), "median-ms/resize")
		})
	}
	if file := os.Getenv(ownSamplesFile); file != "" && len(all) > 0 {
		data, err := json.Marshal(all)
		if err == nil {
			err = os.WriteFile(file, data, 0o600)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

// ownResizes are the kinds of resizes. Each returns the desired size of a round; each round differs
// from the one before.
func ownResizes() map[string]func(round int) api.Size {
	return map[string]func(round int) api.Size{
		"memory": func(round int) api.Size { return api.Size{Memory: api.Bytes(1+round%2) * gi} },
		"vCPUs":  func(round int) api.Size { return api.Size{VCPUs: 1 + round%2} },
		"CPU bandwidth": func(round int) api.Size {
			return api.Size{CPUQuota: api.CPUQuota{Percent: 50 + 30*(round%2)}}
		},
	}
}

// measureOwn returns the times of the resizes in seconds.
func measureOwn(t testing.TB, rounds int, desired func(round int) api.Size) []float64 {
	t.Helper()
	done := make(chan uint64, 1)
	a := &agent{onReport: func(r podapi.Report) {
		switch r.State {
		case podapi.StateDone:
			done <- r.Generation
		case podapi.StateFailed, podapi.StateRefused:
			t.Errorf("report %+v", r)
			done <- r.Generation
		}
	}}
	a.desired = podapi.Desired{Generation: 1, Launcher: "compute",
		Limits: podapi.Limits{Memory: 4 * gi, CPU: 8000}}
	startOwn(t, a)
	<-done
	var took []float64
	for round := 1; round <= rounds; round++ {
		start := time.Now()
		want := a.setDesired(func(w *podapi.Desired) { w.Size = desired(round) })
		for got := uint64(0); got != want; {
			select {
			case got = <-done:
			case <-t.Context().Done():
				t.Fatal("no report of success")
			}
		}
		took = append(took, time.Since(start).Seconds())
	}
	return took
}

// startOwn starts a shim beside a fake libvirt, until the test ends.
func startOwn(t testing.TB, a *agent) {
	t.Helper()
	file, err := journal.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	c, err := coordinator.New(coordinator.Config{
		Connection: virttest.New(state()), Agent: a, Journal: file,
		Overhead: target.Fixed(uint64(gi)), Policy: resize.Policy{Shrink: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() { defer close(ended); c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-ended
		if err := file.Close(); err != nil {
			t.Error(err)
		}
	})
}

// The benchmark measures each kind of resize.
func TestMeasureOwnResize(t *testing.T) {
	for kind, desired := range ownResizes() {
		t.Run(kind, func(t *testing.T) {
			if took := measureOwn(t, 2, desired); len(took) != 2 {
				t.Errorf("%d samples, want 2", len(took))
			}
		})
	}
}

func median(values []float64) float64 { return slices.Sorted(slices.Values(values))[len(values)/2] }
