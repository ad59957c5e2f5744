package suite

import (
	"context"
	"fmt"
	"testing"

	"github.com/mooring-vm/mooring/integration/cri"
	"github.com/mooring-vm/mooring/integration/node"
)

// withoutSetUp returns the node with or without an agent, for tests of containers outside of
// Mooring.
func withoutSetUp(t *testing.T) fixture {
	t.Helper()
	n := node.Start(t)
	c, err := cri.Connect(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return fixture{Node: n, cri: c}
}

// unmanagedPod returns a pod that runs VMs without Mooring.
func unmanagedPod(map[string]string) cri.Pod {
	p := plain()
	p.Annotations = map[string]string{}
	return p
}

// After the death of a launcher process, the runtime kills the container's cgroup, or the kernel
// kills its pid namespace. Processes elsewhere survive: the agent exists to stop them. Here they
// are daemons, because a container does not end while a process holds its output open.
func TestProcessesThatOutliveAContainer(t *testing.T) {
	f := withoutSetUp(t)
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
			v := f.runVM(t, test.at, vmOptions{pod: unmanagedPod, start: test.start})
			if v.launcherProcess == v.vmProcess {
				t.Fatalf("launcher and VM are both process %s", v.launcherProcess)
			}
			if test.elsewhere {
				f.moveElsewhere(t, v)
			}
			if err := f.signal(t.Context(), "KILL", v.launcherProcess); err != nil {
				t.Fatal(err)
			}
			f.awaitEnd(t, v.launcherProcess)
			f.awaitExited(t, v.launcher)
			if !test.survives {
				f.awaitEnd(t, v.vmProcess)
				return
			}
			if !f.isAlive(t, v.vmProcess) {
				t.Error("the VM has ended with its launcher")
			}
		})
	}
}

// moveElsewhere moves the VM process to a cgroup as machined does for libvirt.
func (f fixture) moveElsewhere(t *testing.T, v *vm) {
	t.Helper()
	if err := f.move(t.Context(), v.vmProcess,
		"/machine.slice/suite-"+v.pod.UID[:8]+".scope"); err != nil {
		t.Fatal(err)
	}
}

// moveBelow moves the VM process into a new cgroup below the container's cgroup.
func (f fixture) moveBelow(t *testing.T, v *vm) {
	t.Helper()
	cgroup, err := f.cgroupOf(t.Context(), v.launcherProcess)
	if err == nil {
		err = f.move(t.Context(), v.vmProcess, cgroup+"/vm")
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The launcher scripts react to SIGTERM as their names promise.
func TestLauncherScriptsOnSIGTERM(t *testing.T) {
	f := withoutSetUp(t)
	for name, test := range map[string]struct {
		owner            string
		ends, endsItsOwn bool
	}{
		"dutiful":  {dutiful, true, true},
		"careless": {careless, true, false},
		"stubborn": {stubborn, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			v := f.runVM(t, placements()[2], vmOptions{pod: unmanagedPod, script: test.owner})
			f.moveElsewhere(t, v)
			each(t, []*vm{v}, func(ctx context.Context, v *vm) error {
				return f.signal(ctx, "TERM", v.launcherProcess)
			})
			if !test.ends {
				// runs after the handling of the signal
				if err := f.sendLine(t.Context(), v, "echo still here"); err != nil {
					t.Error(err)
				}
			} else {
				f.awaitEnd(t, v.launcherProcess)
			}
			if f.isAlive(t, v.launcherProcess) == test.ends ||
				f.isAlive(t, v.vmProcess) == test.endsItsOwn {
				t.Errorf("launcher alive: %v, VM alive: %v", f.isAlive(t, v.launcherProcess),
					f.isAlive(t, v.vmProcess))
			}
		})
	}
}

// awaitExited waits until the runtime has noticed the end of a container.
func (f fixture) awaitExited(t *testing.T, i *cri.Instance) {
	t.Helper()
	var err error
	eventually(t, "the runtime to notice the container's end", func() bool {
		var exited bool
		exited, err = i.Exited(t.Context())
		return exited
	}, func() string { return fmt.Sprint(err) })
}
