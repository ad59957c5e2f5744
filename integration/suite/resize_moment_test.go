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
	size int64  // of the guest as it was asked for last, in bytes
}

const (
	dimm     = resize.DIMMBlock
	pageSize = 4096

	// growingOverhead is what the shim is told that the launcher needs beside the guest's
	// memory: more than it really does, or it would be killed when its VM gets no more.
	growingOverhead = 256 * mib
)

// need is what the launcher needs with a guest of that size.
func (*growing) need(size int64) int64 { return size + growingOverhead }

// lock is what libvirt wants QEMU to be able to lock with a guest of that size.
func (*growing) lock(size int64) int64 { return size + gib }

// moment is when the journal has so many steps of a growth begun and confirmed.
type moment struct {
	name             string
	begun, confirmed int

	// holds has the growth that is asked for next stay there until it is released.
	// reached waits for what the journal does not show.
	holds func(g *growing, t *testing.T) (reached, release func())
}

// keepLow has memory.max too low for a DIMM more.
func keepLow(g *growing, t *testing.T) (reached, release func()) {
	t.Helper()
	before := g.memoryMax(t)
	g.setMemoryMax(t, fmt.Sprint(g.need(g.size+dimm)-pageSize))
	return func() {}, func() {
		t.Helper()
		g.setMemoryMax(t, before)
	}
}

// stopVM has QEMU carry out no orders. The release waits for the DIMM that it was told to
// plug.
func stopVM(g *growing, t *testing.T) (reached, release func()) {
	t.Helper()
	g.send(t, "STOP", g.process)
	return func() {}, func() {
		t.Helper()
		g.send(t, "CONT", g.process)
		eventually(t, "the DIMM to be plugged", func() bool { return g.plugged(t) == g.size },
			func() string { return fmt.Sprint(g.plugged(t)) })
	}
}

// holdProgram is the program of integration/suite/hold on the node.
const holdProgram = "/opt/suite/hold"

// storing has the shim hang when it is about to replace the record that has so many steps
// begun and confirmed: those are done, and the next is about to be ordered.
func storing(begun, confirmed int) func(g *growing, t *testing.T) (reached, release func()) {
	return func(g *growing, t *testing.T) (reached, release func()) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		r, w := io.Pipe()
		ended := make(chan struct{})
		hold := []string{holdProgram, g.record(), fmt.Sprintf(`"begun":%d,"confirmed":%d}`, begun, confirmed)}
		go func() {
			defer close(ended)
			_ = w.CloseWithError(g.Run(ctx, node.Command{Args: hold, Stdout: w, Stderr: t.Output()}))
		}()
		release = sync.OnceFunc(func() { cancel(); _ = r.Close(); <-ended })
		t.Cleanup(release)
		lines := bufio.NewScanner(r)
		await := func(line string) {
			t.Helper()
			if !lines.Scan() || lines.Text() != line {
				t.Fatalf("%v says %q, %v, want %q", hold, lines.Text(), lines.Err(), line)
			}
		}
		await("ready")
		return func() { t.Helper(); await("held") }, release
	}
}

// reach asks for a DIMM more and waits for the moment.
func (g *growing) reach(t *testing.T, m moment) (release func()) {
	t.Helper()
	reached, release := m.holds(g, t)
	g.size += dimm
	g.cli(t, "resize", g.pod.Namespace+"/"+g.pod.Name, "--memory="+api.Bytes(g.size).String())
	g.awaitRecord(t, m.begun, m.confirmed)
	reached()
	return release
}

// awaitRecord waits until the journal has so much of what was asked for last.
func (g *growing) awaitRecord(t *testing.T, begun, confirmed int) {
	t.Helper()
	var r resize.Record
	eventually(t, fmt.Sprintf("%d steps to be begun and %d confirmed", begun, confirmed), func() bool {
		r = g.journal(t)
		return r.Phase == resize.Running && r.Target.Memory == api.Bytes(g.size) && r.Started == begun && r.Confirmed == confirmed
	}, func() string { return fmt.Sprintf("%+v", r) })
}

// record is the file of the shim's journal.
func (g *growing) record() string { return g.shared + "/journal/resize.json" }

// journal reads it. There is none before the first resize.
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
	return g.output(t, "cat", fmt.Sprintf("/var/log/pods/%s_%s_%s/%s.log", g.pod.Namespace, g.pod.Name, g.pod.UID, sidecarName))
}

func (g *growing) send(t *testing.T, signal string, to process) {
	t.Helper()
	if err := g.signal(t.Context(), signal, to); err != nil {
		t.Fatal(err)
	}
}

// awaitDone waits until the pod has told that its VM is as it is wanted, and that is what
// was asked for last.
func (g *growing) awaitDone(t *testing.T) (last podapi.Report) {
	t.Helper()
	eventually(t, "the VM to have "+api.Bytes(g.size).String(), func() bool {
		last = g.reported(t, g.vm)
		return last.State == podapi.StateDone && last.Actual != nil && last.Actual.Memory == uint64(g.size)
	}, func() string { return fmt.Sprintf("%+v", last) })
	return last
}

// plugged is what the guest has booted with and all its DIMMs, in bytes.
func (g *growing) plugged(t *testing.T) int64 {
	t.Helper()
	kib := g.inLauncher(t, g.vm, "virsh -c qemu:///session dumpxml "+g.domain()+" | sed -n \"s,.*<memory unit='KiB'>\\([0-9]*\\)</memory>.*,\\1,p\"")
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

// setMemoryMax writes it as anybody may who is root, which the runtime is not told of.
func (g *growing) setMemoryMax(t *testing.T, to string) {
	t.Helper()
	g.output(t, "sh", "-c", `echo "$2" >"$1/memory.max"`, "sh", g.dir, to)
	if got := g.memoryMax(t); got != to {
		t.Fatalf("memory.max is %s, want %s", got, to)
	}
}

// limitsOfVM prints, each time that something of it changes, memory.max of the pod and of
// its launcher, whose cgroup is $1, how often the kernel has killed, and what process $2
// has locked and may lock.
const limitsOfVM = `while sleep 0.1; do
	read -r pod <"$1/../memory.max" && read -r own <"$1/memory.max" || exit
	while read -r key n; do [ "$key" != oom_kill ] || kills=$n; done <"$1/memory.events"
	while read -r key n _; do [ "$key" != VmLck: ] || locked=$n; done <"/proc/$2/status"
	while read -r one two _ soft _; do [ "$one $two" != "Max locked" ] || lock=$soft; done <"/proc/$2/limits"
	now="$pod $own $kills $locked $lock"
	[ "$now" = "$last" ] || echo "$now"
	last=$now
done`

// limitSamples are those of limitsOfVM.
type limitSamples struct{ samples }

func (g *growing) sampleLimits(t *testing.T) limitSamples {
	t.Helper()
	return limitSamples{g.sampling(t, "bash", "-c", limitsOfVM, "bash", g.dir, itoa(g.process.pid))}
}

// kept ends the sampling. At no moment were the limits below what the VM needs at the
// size that it had, or its lock below what was locked, and nothing was killed.
func (s limitSamples) kept(t *testing.T, g *growing, had int64) {
	t.Helper()
	s.stop()
	text := s.text.String()
	t.Logf("pod's memory.max, launcher's, killed, KiB locked, lock:\n%s", text)
	if text == "" {
		t.Fatal("no sample was taken")
	}
	for line := range strings.Lines(text) {
		if !strings.HasSuffix(line, "\n") {
			break // it was ended in the middle of a line
		}
		var podMax, ownMax string
		var kills, locked, lock int64
		if _, err := fmt.Sscan(line, &podMax, &ownMax, &kills, &locked, &lock); err != nil {
			t.Fatalf("a sample is %q: %v", line, err)
		}
		if min(limitOf(t, podMax), limitOf(t, ownMax)) < g.need(had) || kills != 0 || lock < max(g.lock(had), locked<<10) {
			t.Errorf("at some moment it was %s, and the VM needs %d and a lock of %d", strings.TrimSpace(line), g.need(had), g.lock(had))
		}
	}
}

// limitOf reads what memory.max has.
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
