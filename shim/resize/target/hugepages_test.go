package target_test

import (
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/shim/resize/target"
)

// Huge pages do not count against the memory limit of a pod, and their own limit cannot change.
func TestHugePages(t *testing.T) {
	g := target.Guest{Boot: 4 * gi, Memory: 6 * gi, HugePages: true, Block: 2 * mi, VCPUs: 2}
	limits := launcher(300*mi, 0)
	for _, c := range []struct {
		requested api.Bytes
		keeps     bool
		want      target.Target
		err       string
	}{
		{5 * gi, true, target.Target{Size: api.Size{Memory: 5 * gi}, Overhead: 256 * mi,
			Limit: 300 * mi, HugePages: true}, ""},
		{7 * gi, true, target.Target{}, `"7Gi": want at most 6Gi, which the guest has`},
		{0, true, target.Target{}, ""},
		{0, false, target.Target{}, ""},
	} {
		g.Keeps = c.keeps
		got, err := target.Compute(
			sized(limits, api.Size{Memory: c.requested}), g, target.Fixed(256*mi),
		)
		if !got.SameSize(c.want) || (err == nil) != (c.err == "") ||
			err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %+v, %v, want %+v, %q", c.requested, got, err, c.want, c.err)
		}
		if required := got.MemoryRequirement(); required > 256*mi {
			t.Errorf("%s: requirement %d, want the overhead at most", c.requested, required)
		}
	}
}
