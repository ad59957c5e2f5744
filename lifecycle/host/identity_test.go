package host_test

import (
	"testing"

	"github.com/mooring-vm/mooring/lifecycle/host"
)

const tick = uint64(host.Tick)

func TestSameProcess(t *testing.T) {
	exact := host.Process{PID: 7, StartTime: 5*tick + 1}
	for name, test := range map[string]struct {
		other host.Process
		same  bool
	}{
		"itself":      {exact, true},
		"from procfs": {host.ProcessAt(7, 5), true},
		"in another cgroup": {host.Process{PID: 7, StartTime: 5*tick + 1, Cgroup: "/x"},
			true},
		"a nanosecond later":        {host.Process{PID: 7, StartTime: 5*tick + 2}, false},
		"a tick later, from procfs": {host.ProcessAt(7, 6), false},
		"another pid":               {host.ProcessAt(8, 5), false},
	} {
		if exact.Same(test.other) != test.same || test.other.Same(exact) != test.same {
			t.Errorf("%s: want %t in both directions", name, test.same)
		}
		if test.same && exact.ID() != test.other.ID() {
			t.Errorf("%s: keys %+v and %+v differ", name, exact.ID(), test.other.ID())
		}
	}
}

func TestStartedBefore(t *testing.T) {
	exact, whole := host.Process{PID: 7, StartTime: 5*tick + 3}, host.ProcessAt(7, 5)
	for _, test := range []struct {
		at           uint64
		exact, whole bool
	}{
		{5 * tick, false, false}, {5*tick + 3, false, false}, {5*tick + 4, true, false},
		{6*tick - 1, true, false}, {6 * tick, true, true},
	} {
		at := host.Boottime(test.at)
		if exact.StartedBefore(at) != test.exact || whole.StartedBefore(at) != test.whole {
			t.Errorf("before %d: %t and %t, want %t and %t", at, exact.StartedBefore(at),
				whole.StartedBefore(at), test.exact, test.whole)
		}
	}
}
