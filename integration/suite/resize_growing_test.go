package suite

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/integration/node"
	"github.com/mooring-vm/mooring/shim/resize"
)

// growing is a VM beside a sidecar that grows by one DIMM after the other.
type growing struct {
	fixture
	*vm
	shim process
	dir  string // of the launcher's cgroup
	size int64  // last requested size of the guest, in bytes
}

const (
	dimm     = resize.DIMMBlock
	pageSize = 4096

	// growingOverhead is the shim's --overhead: the launcher's memory beside the guest's memory. It
	// exceeds the real need, so that the kernel does not kill the launcher at its limit.
	growingOverhead = 256 * mib
)

// requirement returns the memory requirement of the launcher with a guest of this size.
func (*growing) requirement(size int64) int64 { return size + growingOverhead }

// lock returns libvirt's memory-lock limit for a guest of this size.
func (*growing) lock(size int64) int64 { return size + gib }

// journalPoint is a point of a growth, by the started and confirmed steps in the journal.
type journalPoint struct {
	name               string
	started, confirmed int

	// hold stops the next growth at this point until release. reached waits for conditions that the
	// journal does not show.
	hold func(g *growing, t *testing.T) (reached, release func())
}

// holdByLimit makes memory.max too low for one more DIMM.
func holdByLimit(g *growing, t *testing.T) (reached, release func()) {
	t.Helper()
	before := g.memoryMax(t)
	g.setMemoryMax(t, fmt.Sprint(g.requirement(g.size+dimm)-pageSize))
	return func() {}, func() {
		t.Helper()
		g.setMemoryMax(t, before)
	}
}

// holdByStoppedVM stops QEMU with SIGSTOP. release continues QEMU and waits for the requested
// DIMM.
func holdByStoppedVM(g *growing, t *testing.T) (reached, release func()) {
	t.Helper()
	g.send(t, "STOP", g.vmProcess)
	return func() {}, func() {
		t.Helper()
		g.send(t, "CONT", g.vmProcess)
		eventually(t, "the DIMM to be plugged", func() bool { return g.plugged(t) == g.size },
			func() string { return fmt.Sprint(g.plugged(t)) })
	}
}

// blockOpenProgram is the program of integration/suite/blockopen on the node.
const blockOpenProgram = "/opt/suite/blockopen"

// holdAtRecord blocks the shim when it replaces the record with these started and confirmed
// steps. Then these steps are done, and the shim is about to request the next one.
func holdAtRecord(begun, confirmed int) func(g *growing, t *testing.T) (reached, release func()) {
	return func(g *growing, t *testing.T) (reached, release func()) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), waitTimeout)
		r, w := io.Pipe()
		ended := make(chan struct{})
		args := []string{blockOpenProgram, g.record(),
			fmt.Sprintf(`"begun":%d,"confirmed":%d}`, begun, confirmed)}
		go func() {
			defer close(ended)
			_ = w.CloseWithError(
				g.Run(ctx, node.Command{Args: args, Stdout: w, Stderr: t.Output()}))
		}()
		release = sync.OnceFunc(func() { cancel(); _ = r.Close(); <-ended })
		t.Cleanup(release)
		lines := bufio.NewScanner(r)
		await := func(line string) {
			t.Helper()
			if !lines.Scan() || lines.Text() != line {
				t.Fatalf("%v prints %q, %v, want %q", args, lines.Text(), lines.Err(), line)
			}
		}
		await("ready")
		return func() { t.Helper(); await("blocked") }, release
	}
}

// reach requests one more DIMM, and waits until the growth reaches the point.
func (g *growing) reach(t *testing.T, m journalPoint) (release func()) {
	t.Helper()
	reached, release := m.hold(g, t)
	g.size += dimm
	g.cli(t, "resize", g.pod.Namespace+"/"+g.pod.Name, "--memory="+api.Bytes(g.size).String())
	g.awaitRecord(t, m.started, m.confirmed)
	reached()
	return release
}

// awaitRecord waits until the journal has these steps of the last request.
func (g *growing) awaitRecord(t *testing.T, begun, confirmed int) {
	t.Helper()
	var r resize.Record
	eventually(t, fmt.Sprintf("%d steps to be started and %d confirmed", begun, confirmed),
		func() bool {
			r = g.journal(t)
			return r.Phase == resize.Running && r.Target.Memory == api.Bytes(g.size) &&
				r.Started == begun &&
				r.Confirmed == confirmed
		}, func() string { return fmt.Sprintf("%+v", r) })
}

// record returns the file of the shim's journal.
func (g *growing) record() string { return g.shared + "/journal/resize.json" }

// journal reads the shim's journal. It returns a zero record before the first resize.
func (g *growing) journal(t *testing.T) resize.Record {
	t.Helper()
	text := g.output(t, "sh", "-c", `[ ! -e "$1" ] || cat "$1"`, "sh", g.record())
	if text == "" {
		return resize.Record{}
	}
	r, err := resize.DecodeRecord([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (g *growing) shimLog(t *testing.T) string {
	t.Helper()
	return g.output(t, "cat", fmt.Sprintf("/var/log/pods/%s_%s_%s/%s.log",
		g.pod.Namespace, g.pod.Name,
		g.pod.UID, sidecarName))
}

func (g *growing) send(t *testing.T, signal string, to process) {
	t.Helper()
	if err := g.signal(t.Context(), signal, to); err != nil {
		t.Fatal(err)
	}
}

// awaitDone waits until the pod reports that its VM has the last requested size.
func (g *growing) awaitDone(t *testing.T) (last podapi.Report) {
	t.Helper()
	eventually(t, "the VM to have "+api.Bytes(g.size).String(), func() bool {
		last = g.lastReport(t, g.vm)
		return last.State == podapi.StateDone && last.Actual != nil &&
			last.Actual.Memory == uint64(g.size)
	}, func() string { return fmt.Sprintf("%+v", last) })
	return last
}

// plugged returns the guest's memory at boot plus all its DIMMs, in bytes.
func (g *growing) plugged(t *testing.T) int64 {
	t.Helper()
	kib := g.inLauncher(t, g.vm,
		"virsh -c qemu:///session dumpxml "+g.domain()+" | sed -n \"s,.*<memory "+
			"unit='KiB'>\\([0-9]*\\)</memory>.*,\\1,p\"")
	n, err := strconv.ParseInt(kib, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n << 10
}

func (g *growing) memoryMax(t *testing.T) string {
	t.Helper()
	return g.output(t, "cat", g.dir+"/memory.max")
}

// setMemoryMax writes memory.max directly, without the runtime.
func (g *growing) setMemoryMax(t *testing.T, to string) {
	t.Helper()
	g.output(t, "sh", "-c", `echo "$2" >"$1/memory.max"`, "sh", g.dir, to)
	if got := g.memoryMax(t); got != to {
		t.Fatalf("memory.max is %s, want %s", got, to)
	}
}

// limitsOfVM prints, after each change: memory.max of the pod and of the launcher's cgroup $1,
// the number of OOM kills, and the locked memory and memory-lock limit of process $2.
const limitsOfVM = `while sleep 0.1; do
	read -r pod <"$1/../memory.max" && read -r own <"$1/memory.max" || exit
	while read -r key n; do [ "$key" != oom_kill ] || kills=$n; done <"$1/memory.events"
	while read -r key n _; do [ "$key" != VmLck: ] || locked=$n; done <"/proc/$2/status"
	while read -r one two _ soft _; do [ "$one $two" != "Max locked" ] || lock=$soft; done <"/proc/$2/limits"
	now="$pod $own $kills $locked $lock"
	[ "$now" = "$last" ] || echo "$now"
	last=$now
done`

// limitSamples are samples of limitsOfVM.
type limitSamples struct{ samples }

func (g *growing) sampleLimits(t *testing.T) limitSamples {
	t.Helper()
	return limitSamples{g.startSampling(t, "bash", "-c", limitsOfVM, "bash", g.dir,
		itoa(g.vmProcess.pid))}
}

// check ends the sampling. It checks that the limits were never below the VM's requirement at
// its former size, that the memory-lock limit was never below the locked memory, and that the
// kernel killed no process.
func (s limitSamples) check(t *testing.T, g *growing, had int64) {
	t.Helper()
	s.stop()
	text := s.text.String()
	t.Logf("pod's memory.max, launcher's, killed, KiB locked, lock:\n%s", text)
	if text == "" {
		t.Fatal("no samples")
	}
	for line := range strings.Lines(text) {
		if !strings.HasSuffix(line, "\n") {
			break // the end of the sampling cut this line
		}
		var podMax, ownMax string
		var kills, locked, lock int64
		if _, err := fmt.Sscan(line, &podMax, &ownMax, &kills, &locked, &lock); err != nil {
			t.Fatalf("sample %q: %v", line, err)
		}
		if min(limitOf(t, podMax), limitOf(t, ownMax)) < g.requirement(had) || kills != 0 ||
			lock < max(g.lock(had), locked<<10) {
			t.Errorf("sample %s, but the VM needs %d bytes and a limit of %d",
				strings.TrimSpace(line),
				g.requirement(had), g.lock(had))
		}
	}
}

// limitOf parses the content of memory.max.
func limitOf(t *testing.T, text string) int64 {
	t.Helper()
	if text == "max" {
		return math.MaxInt64
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
