package suite

import (
	"context"
	"fmt"
	"testing"

	"github.com/mooring-vm/mooring/integration/cri"
	"github.com/mooring-vm/mooring/integration/node"
)

// bare is a node as it is, with the agent or without: for what holds of any
// container, in pods that the agent has nothing to do with.
func bare(t *testing.T) fixture {
	t.Helper()
	n := node.Start(t)
	c, err := cri.Connect(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return fixture{Node: n, cri: c}
}

// stranger is a pod that runs VMs and is none of the agent's.
func stranger(map[string]string) cri.Pod {
	p := plain()
	p.Annotations = map[string]string{}
	return p
}

// TestWhatTheRuntimeEndsItself: with a killed owner the runtime ends the container
// and what is in its cgroup, or the kernel all of its pid namespace. What lies
// elsewhere lives on: that is what the agent is for. Those are daemons here, since
// the runtime takes no container for ended while somebody holds its output open.
func TestWhatTheRuntimeEndsItself(t *testing.T) {
	f := bare(t)
	for _, test := range []struct {
		name      string
		at        placement
		start     string
		elsewhere bool // QEMU in a cgroup outside the pod's
		survives  bool
	}{
		{"own pid namespace", placements()[0], asChild, false, false},
		{"own pid namespace, daemon elsewhere", placements()[0], asDaemon, true, false},
		{"shareProcessNamespace", placements()[1], asChild, false, false},
		{"shareProcessNamespace, daemon elsewhere", placements()[1], asDaemon, true, true},
		{"hostPID", placements()[2], asChild, false, false},
		{"hostPID, daemon", placements()[2], asDaemon, false, false},
		{"hostPID, daemon elsewhere", placements()[2], asDaemon, true, true},
		{"node-level libvirt", placements()[3], "", false, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			v := f.runVM(t, test.at, want{pod: stranger, start: test.start})
			if v.owner == v.process {
				t.Fatalf("owner and VM are both process %s", v.owner)
			}
			if test.elsewhere {
				f.moveElsewhere(t, v)
			}
			if err := f.signal(t.Context(), "KILL", v.owner); err != nil {
				t.Fatal(err)
			}
			f.awaitEnd(t, v.owner)
			f.awaitExited(t, v.launcher)
			if !test.survives {
				f.awaitEnd(t, v.process)
				return
			}
			if !f.lives(t, v.process) {
				t.Error("the VM has ended with its owner")
			}
		})
	}
}

// moveElsewhere puts the VM's process where machined puts those of libvirt.
func (f fixture) moveElsewhere(t *testing.T, v *vm) {
	t.Helper()
	if err := f.move(t.Context(), v.process, "/machine.slice/suite-"+v.pod.UID[:8]+".scope"); err != nil {
		t.Fatal(err)
	}
}

// moveBelow puts the VM's process into a cgroup of its own below the container's.
func (f fixture) moveBelow(t *testing.T, v *vm) {
	t.Helper()
	cgroup, err := f.cgroupOf(t.Context(), v.owner)
	if err == nil {
		err = f.move(t.Context(), v.process, cgroup+"/vm")
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestOwnersAnswerToSIGTERM: the shells do as their names say.
func TestOwnersAnswerToSIGTERM(t *testing.T) {
	f := bare(t)
	for name, test := range map[string]struct {
		owner            string
		ends, endsItsOwn bool
	}{
		"dutiful":  {dutiful, true, true},
		"careless": {careless, true, false},
		"stubborn": {stubborn, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			v := f.runVM(t, placements()[2], want{pod: stranger, owner: test.owner})
			f.moveElsewhere(t, v)
			each(t, []*vm{v}, func(ctx context.Context, v *vm) error { return f.signal(ctx, "TERM", v.owner) })
			if !test.ends {
				if err := f.tell(t.Context(), v, "echo still here"); err != nil { // after it has handled the signal
					t.Error(err)
				}
			} else {
				f.awaitEnd(t, v.owner)
			}
			if f.lives(t, v.owner) == test.ends || f.lives(t, v.process) == test.endsItsOwn {
				t.Errorf("owner lives: %v, VM lives: %v", f.lives(t, v.owner), f.lives(t, v.process))
			}
		})
	}
}

// awaitExited waits until the runtime knows that a container has ended.
func (f fixture) awaitExited(t *testing.T, i *cri.Instance) {
	t.Helper()
	var err error
	eventually(t, "the runtime to see the container's end", func() bool {
		var exited bool
		exited, err = i.Exited(t.Context())
		return exited
	}, func() string { return fmt.Sprint(err) })
}
