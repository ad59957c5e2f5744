package podserver_test

import (
	"net/http"
	"testing"

	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/shim/agent"
)

// A pod reads the policy's headroom also before its launcher runs, as pod "c" does.
func TestHeadroom(t *testing.T) {
	r := newRig(t)
	for _, want := range []podapi.Headroom{{Memory: int64(64 * gi), CPUs: 16}, {CPUs: 1}, {}} {
		r.Policy.Set(&policy.Policy{Headroom: policy.Headroom(want)})
		for _, uid := range []string{"a", "c"} {
			if got, err := agent.New(r.serve(t, uid)).Headroom(t.Context()); got != want ||
				err != nil {
				t.Errorf("pod %s: %+v, %v, want %+v", uid, got, err, want)
			}
		}
	}
	for _, method := range []string{"PUT", "POST", "DELETE"} {
		if status, code := send(t, r.serve(t, "a"), request(method, podapi.PathHeadroom,
			`{"cpuCapacity":64}`)); status != http.StatusNotFound || code != podapi.CodeNotFound {
			t.Errorf("%s: answered %d %q", method, status, code)
		}
	}
}
