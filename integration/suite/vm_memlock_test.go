package suite

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
)

// untilLimit prints how many milliseconds after the start of process $1 its memory
// lock was $2 bytes: in ticks of ten, as the kernel tells the start.
const untilLimit = `until grep -q "^Max locked memory *$2 *$2 " /proc/$1/limits; do kill -0 $1 || exit; done
now=$(cut -d' ' -f1 /proc/uptime) && start=$(sed 's/.*) //' /proc/$1/stat | cut -d' ' -f20) &&
	awk "BEGIN { printf \"%d\", $now * 1000 - $start * 10 }"`

// lockedTo waits until QEMU may lock so much, and returns how long after its start it
// could, in milliseconds.
func (f fixture) lockedTo(t *testing.T, v *vm, bytes int64) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	text, err := f.Output(ctx, "sh", "-c", untilLimit, "sh", itoa(v.process.pid), fmt.Sprint(bytes))
	if err != nil {
		t.Fatalf("QEMU has %s, want %s: %v", f.memlockOf(t, itoa(v.process.pid)), both(bytes), err)
	}
	ms, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return ms
}

// TestCoreMemlockOfQEMU: the limit is QEMU's, also where somebody else has set another.
func TestCoreMemlockOfQEMU(t *testing.T) {
	claim(t, "QEMU has its launcher's memory lock: in the pod, by libvirt, lowered later")
	f := setUpVMs(t)
	asks := map[string]string{api.RequiresLockKey: "true", api.ValueKey: "1Gi"} // and 1Gi of the container
	t.Run("child of its launcher", func(t *testing.T) {
		v := f.runVM(t, placements()[2], want{annotations: asks})
		t.Logf("%d ms after QEMU's start", f.lockedTo(t, v, 2*gib))
	})
	t.Run("node-level libvirt", func(t *testing.T) {
		v := f.runVM(t, placements()[3], want{annotations: asks})
		t.Logf("%d ms after QEMU's start", f.lockedTo(t, v, 2*gib))
		f.awaitEvent(t, v.pod, agentapi.ReasonLimitRepaired)
	})
	const lower = "libvirt sets a lower one"
	if runs(t, lower, false) {
		t.Run(lower, func(t *testing.T) {
			v := f.runLaunchers(t, placements()[3:], want{annotations: asks})[0]
			locked := `<memtune><hard_limit unit='MiB'>1536</hard_limit></memtune><memoryBacking><locked/></memoryBacking>`
			if err := f.startDomainOf(t.Context(), v, locked); err != nil {
				t.Fatal(err)
			}
			t.Logf("%d ms after QEMU's start", f.lockedTo(t, v, 2*gib))
		})
	}
	t.Run("a manager lowers it", func(t *testing.T) { f.lowered(t, asks) })
}

// lowered has a stand-in for a VM manager set its own limit a moment after QEMU's
// start, as virt-handler does, and once more later.
func (f fixture) lowered(t *testing.T, asks map[string]string) {
	t.Helper()
	v := f.runVM(t, placements()[2], want{annotations: asks})
	lower := []string{"prlimit", "--pid", itoa(v.process.pid), "--memlock=1073741824"}
	f.output(t, lower...)
	t.Logf("%d ms after QEMU's start, lowered at once", f.lockedTo(t, v, 2*gib))
	f.output(t, lower...)
	f.lockedTo(t, v, 2*gib) // by the round of all launchers
	f.awaitEvent(t, v.pod, agentapi.ReasonLimitRepaired)
	if got := f.memlockOf(t, itoa(v.owner.pid)); got != both(2*gib) {
		t.Errorf("the launcher's own limit is %s, and was not to be touched", got)
	}
}
