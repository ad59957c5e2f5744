package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/api/policy"
)

// TestObserveThenEnforce is the first test of this package, by its file's name. It installs Mooring
// in mode observe next to a running launcher. Mooring changes no pod, and the VM of a killed
// launcher goes on. After the switch to mode enforce it compares each prediction with the outcome.
func TestObserveThenEnforce(t *testing.T) {
	c := startWithout(t)
	if c.installed {
		t.Fatal("Mooring is installed: want this test to be the first")
	}
	if err := c.makeNamespace(t.Context(), namespace, "privileged"); err != nil {
		t.Fatal(err)
	}
	c.create(t, unrequiring("early", withDevice(), "--vm"))
	c.awaitRunning(t, "early")
	limits, vm := c.run(t, "early", "limits", "1"), c.processOf(t, "early", emulator)

	c.install(t, current(), string(policy.Observe))
	c.awaitEvent(t, "early", "WouldSet", "RLIMIT_MEMLOCK to 6Gi")
	tooMuch := map[string]string{"guest-memory.memlock.mooring.dev": "40Gi"}
	c.create(t, unrequiring("too-much", tooMuch))
	c.awaitRunning(t, "too-much")
	predicted := c.awaitEvent(t, "too-much", "WouldRefuse").Message
	stop := c.leaveOrphan(t, "orphan")
	if got := c.run(t, "early", "limits", "1"); got != limits {
		t.Errorf("mode observe changed %q to %q", limits, got)
	}

	c.configureContainerd(t, "--set=mode="+string(policy.Enforce))
	c.installed = true
	eventually(t, "the predicted lock", func(context.Context) error {
		got := c.run(t, "early", "limits", "1")
		if got != fmt.Sprintf("memlock %d %d", lock, lock) {
			return fmt.Errorf("got %q", got)
		}
		return nil
	})
	c.create(t, unrequiring("again", tooMuch))
	outcome := strings.NewReplacer(policy.Observing, "", namespace+"/too-much", namespace+"/again")
	c.awaitEvent(t, "again", "Failed", outcome.Replace(predicted))
	c.awaitOrphanStopped(t, "orphan", stop)
	if now := c.processOf(t, "early", emulator); now != vm {
		t.Errorf("the VM was process %s and is process %s", vm, now)
	}
}

// leaveOrphan kills the launcher of a VM in mode observe. The VM process stays. It returns the stop
// that the agent predicts.
func (c *cluster) leaveOrphan(t *testing.T, pod string) (stop string) {
	t.Helper()
	c.create(t, escaping(pod, nil))
	c.awaitRunning(t, pod)
	c.awaitEvent(t, pod, "VMStarted")
	vm := c.processOf(t, pod, emulator)
	c.killLauncher(t, pod)
	c.awaitEvent(t, pod, "OwnerGone")
	prefix := policy.Observing + "would stop "
	predicted := c.awaitEvent(t, pod, "WouldStop", prefix).Message
	if now := c.findProcess(t, pod, beside, emulator); now != vm {
		t.Errorf("the orphan was process %s and is process %q", vm, now)
	}
	return strings.TrimPrefix(predicted, prefix)
}

// awaitOrphanStopped expects the predicted stop of the VM process, from its first stage.
func (c *cluster) awaitOrphanStopped(t *testing.T, pod, stop string) {
	t.Helper()
	c.awaitEvent(t, pod, "VMTerminated", stop)
	c.awaitEvent(t, pod, "VMGone")
	if left := c.findProcess(t, pod, beside, emulator); left != "" {
		t.Errorf("the orphan is left as process %s", left)
	}
}
