package host_test

import (
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/lifecycletest"
)

// A limit that another program resets at once is a failure.
func TestMemlockIsReadBack(t *testing.T) {
	k := &stubborn{lifecycletest.NewKernel()}
	p := k.Start(1, "/a", same(4*gi))
	if err := host.RaiseMemlock(k, p, 5*gi); err == nil ||
		!strings.Contains(err.Error(), "another program sets it") {
		t.Errorf("raised: %v", err)
	}
	if err := host.LowerMemlock(k, p, 3*gi); err == nil ||
		!strings.Contains(err.Error(), "another program sets it") {
		t.Errorf("lowered: %v", err)
	}
}

// stubborn accepts limits and does not keep them.
type stubborn struct{ *lifecycletest.Kernel }

func (*stubborn) SetMemlock(host.Process, host.Rlimit) error { return nil }

func TestAvailableMemory(t *testing.T) {
	k := lifecycletest.NewKernel()
	k.SetMemAvailable(10 * gi)
	k.Write("/kubepods/burstable/pod", "memory.max", "1\n") // the pod's own limit does not count
	for _, c := range []struct {
		file, content string
		want          uint64
		ok            bool
	}{
		{"memory.current", "5\n", 10 * gi, true},
		{"memory.max", "max\n", 10 * gi, true},
		{"memory.max", "105\n", 0, false}, // no memory.stat
		{"memory.stat", "anon 5\n", 100, true},
		{"memory.stat", "anon 5\ninactive_file 2\n", 102, true},
		{"memory.stat", "inactive_file 7\n", 105, true},
		{"memory.max", "3\n", 3, true},
		{"memory.stat", "inactive_file 0\n", 0, true},
		{"memory.max", "much\n", 0, false},
	} {
		k.Write("/kubepods", c.file, c.content)
		got, err := host.AvailableMemory(k, "/kubepods/burstable/pod")
		if got != c.want || (err == nil) != c.ok {
			t.Errorf("%s %q: available %d, %v, want %d", c.file, c.content, got, err, c.want)
		}
	}
}

const gi = 1 << 30

func same(l host.Limit) host.Rlimit { return host.Rlimit{Soft: l, Hard: l} }
