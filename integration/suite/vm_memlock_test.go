package suite

import (
	"context"
	"fmt"
	"strconv"
	"testing"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
)

// awaitLimitScript waits until process $1 has a memory-lock limit of $2 bytes. It prints the
// milliseconds since the start of the process, in steps of ten: the kernel's tick.
const awaitLimitScript = `until grep -q "^Max locked memory *$2 *$2 " /proc/$1/limits; do kill -0 $1 || exit; done
now=$(cut -d' ' -f1 /proc/uptime) && start=$(sed 's/.*) //' /proc/$1/stat | cut -d' ' -f20) &&
	awk "BEGIN { printf \"%d\", $now * 1000 - $start * 10 }"`

// awaitVMMemlock waits until QEMU has this memory-lock limit. It returns the time since QEMU's
// start in milliseconds.
func (f fixture) awaitVMMemlock(t *testing.T, v *vm, bytes int64) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
	defer cancel()
	text, err := f.Output(ctx, "sh", "-c", awaitLimitScript, "sh", itoa(v.vmProcess.pid),
		fmt.Sprint(bytes))
	if err != nil {
		t.Fatalf("QEMU has %s, want %s: %v", f.memlockOf(t, itoa(v.vmProcess.pid)),
			both(bytes), err)
	}
	ms, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return ms
}

// QEMU gets the limit, even if libvirt or a VM manager sets another one.
func TestCoreMemlockOfQEMU(t *testing.T) {
	claim(t, "QEMU has its launcher's memory lock: in the pod, by libvirt, lowered later")
	f := setUpVMs(t)
	// plus 1Gi of the container
	annotations := map[string]string{api.RequiresLockKey: "true", api.ValueKey: "1Gi"}
	t.Run("child of its launcher", func(t *testing.T) {
		v := f.runVM(t, placements()[2], vmOptions{annotations: annotations})
		t.Logf("%d ms after QEMU's start", f.awaitVMMemlock(t, v, 2*gib))
	})
	t.Run("node-level libvirt", func(t *testing.T) {
		v := f.runVM(t, placements()[3], vmOptions{annotations: annotations})
		t.Logf("%d ms after QEMU's start", f.awaitVMMemlock(t, v, 2*gib))
		f.awaitEvent(t, v.pod, agentapi.ReasonLimitRepaired)
	})
	const lower = "libvirt sets a lower one"
	if isSelected(t, lower, false) {
		t.Run(lower, func(t *testing.T) {
			v := f.runLaunchers(t, placements()[3:], vmOptions{annotations: annotations})[0]
			locked := `<memtune><hard_limit ` +
				`unit='MiB'>1536</hard_limit></memtune><memoryBacking><locked/></memoryBacking>`
			if err := f.startDomainOf(t.Context(), v, locked); err != nil {
				t.Fatal(err)
			}
			t.Logf("%d ms after QEMU's start", f.awaitVMMemlock(t, v, 2*gib))
		})
	}
	t.Run("a manager lowers it", func(t *testing.T) { f.lowerTwice(t, annotations) })
}

// lowerTwice lowers the limit a moment after QEMU's start, as virt-handler does, and again later.
func (f fixture) lowerTwice(t *testing.T, annotations map[string]string) {
	t.Helper()
	v := f.runVM(t, placements()[2], vmOptions{annotations: annotations})
	lower := []string{"prlimit", "--pid", itoa(v.vmProcess.pid), "--memlock=1073741824"}
	f.output(t, lower...)
	t.Logf("%d ms after QEMU's start, lowered at once", f.awaitVMMemlock(t, v, 2*gib))
	f.output(t, lower...)
	f.awaitVMMemlock(t, v, 2*gib) // in the regular check of all launchers
	f.awaitEvent(t, v.pod, agentapi.ReasonLimitRepaired)
	if got := f.memlockOf(t, itoa(v.launcherProcess.pid)); got != both(2*gib) {
		t.Errorf("the launcher's own limit is %s, want it unchanged", got)
	}
}
