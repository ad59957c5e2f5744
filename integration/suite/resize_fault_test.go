package suite

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/integration/cri"
)

// A VM grows by one DIMM after the other, and QEMU pins them all. Faults happen between two
// records of the shim's journal: the agent is killed, or another process writes to memory.max
// of the container.
func TestResizeUnderFaults(t *testing.T) {
	f := setUpVMs(t)
	f.pushShim(t)
	f.pushProgram(t, "./blockopen", blockOpenProgram)
	g := f.runGrowing(t)
	for _, m := range []journalPoint{
		{"the shim waits for memory.max", 1, 0, holdByLimit},
		{"the shim has read memory.max", 1, 0, holdAtRecord(1, 0)},
		{"the limit is raised", 2, 1, holdAtRecord(2, 1)},
		{"the DIMM is requested", 3, 2, holdByStoppedVM},
	} {
		t.Run("agent killed when "+m.name, func(t *testing.T) { g.agentKilled(t, m) })
	}
	t.Run("agent killed while the shim hangs", g.requirementOutlivesAgent)
	t.Run("memory.max lowered before the DIMM is requested", g.loweredBefore)
	t.Run("memory.max lowered after the DIMM was requested", g.loweredAfter)
	f.neverReported(t, g.pod, agentapi.ReasonVMTerminated)
}

// agentKilled kills the agent at a point of a growth. The next agent finds the changes, and the
// shim continues. The shim rolls no step back.
func (g *growing) agentKilled(t *testing.T, m journalPoint) {
	t.Helper()
	had, s, logged := g.size, g.sampleLimits(t), len(g.shimLog(t))
	release := g.reach(t, m)
	start := g.killAgent(t)
	defer start()
	release()
	start()
	g.awaitDone(t)
	g.checkBothAlive(t, g.vm)
	g.checkPinned(t, g.vm, g.size, g.lock(g.size))
	s.check(t, g, had)
	for _, rollback := range []string{"unplug", "lower QEMU's memory-lock limit"} {
		if log := g.shimLog(t)[logged:]; strings.Contains(log, rollback) {
			t.Errorf("the shim has rolled back a step:\n%s", log)
		}
	}
}

// requirementOutlivesAgent checks that a new agent knows the memory requirement of the VM, although
// the shim hangs.
func (g *growing) requirementOutlivesAgent(t *testing.T) {
	g.awaitDone(t)
	g.send(t, "STOP", g.shim)
	killAndAwaitAgent(t, g.fixture)
	g.awaitVM(t, g.vm, agentapi.VMRunning)
	g.checkUpdateRefused(t, g.vm, g.requirement(g.size)-pageSize,
		"its VM needs "+api.Bytes(g.requirement(g.size)).String())
	if got := g.output(t, "grep", "^State:",
		"/proc/"+itoa(g.shim.pid)+"/status"); !strings.Contains(got, "T (stopped)") {
		t.Errorf("state of the shim: %s, want stopped", got)
	}
	g.checkUpdateApplied(t, g.vm, growingLimit)
	g.send(t, "CONT", g.shim)
	g.awaitDone(t)
}

// loweredBefore lowers memory.max before the DIMM is requested. The shim plugs no DIMM beyond the
// limit and rolls its steps back. After the limit is back, it plugs the DIMM.
func (g *growing) loweredBefore(t *testing.T) {
	had, s := g.size, g.sampleLimits(t)
	// the shim has read memory.max
	release := g.reach(t, journalPoint{started: 1, hold: holdAtRecord(1, 0)})
	before := g.memoryMax(t)
	g.setMemoryMax(t, fmt.Sprint(g.requirement(had)))
	release()
	g.awaitFailureReport(t, had)
	g.checkBothAlive(t, g.vm)
	g.checkPinned(t, g.vm, had, g.lock(had)) // not more
	g.awaitRecord(t, 1, 0)                   // the shim retries, and waits
	if got := g.plugged(t); got != had {
		t.Errorf("the domain has %d bytes, want %d within memory.max", got, had)
	}
	g.setMemoryMax(t, before)
	g.awaitDone(t)
	g.checkPinned(t, g.vm, g.size, g.lock(g.size))
	s.check(t, g, had)
}

// awaitFailureReport waits until the pod reports the failed resize with its reason.
func (g *growing) awaitFailureReport(t *testing.T, had int64) {
	t.Helper()
	var r podapi.Report
	eventually(t, "the resize to fail", func() bool {
		r = g.lastReport(t, g.vm)
		return r.State == podapi.StateFailed
	}, func() string { return fmt.Sprintf("%+v", r) })
	why := fmt.Sprintf("plug a DIMM of %s into NUMA cell 0: memory.max is unlimited for the pod "+
		"and %s for the container: want at least %s",
		api.Bytes(dimm), api.Bytes(g.requirement(had)), api.Bytes(g.requirement(g.size)))
	if r.Error != why || r.Actual == nil || r.Actual.Memory != uint64(had) {
		t.Errorf("the pod reports %+v, want %d bytes, and the error %q", r, had, why)
	}
	back := func(s podapi.Step) bool {
		return s.Rollback && s.Error == "" &&
			strings.HasPrefix(s.Description, "lower QEMU's memory-lock limit")
	}
	if !slices.ContainsFunc(r.Steps, back) {
		t.Errorf("the pod reports the steps %+v, want the memory lock lowered again", r.Steps)
	}
}

// loweredAfter lowers memory.max after the request of the DIMM. QEMU plugs the DIMM, and the VM
// has its desired size.
func (g *growing) loweredAfter(t *testing.T) {
	had, s := g.size, g.sampleLimits(t)
	release := g.reach(t, journalPoint{started: 3, confirmed: 2, hold: holdByStoppedVM})
	before := g.memoryMax(t)
	g.setMemoryMax(t, fmt.Sprint(g.requirement(g.size)-pageSize))
	release()
	r := g.awaitDone(t)
	if low := func(note string) bool {
		return strings.HasPrefix(note, "memory.max fell to ")
	}; r.Error != "" || !slices.ContainsFunc(r.Notes, low) {
		t.Errorf("the pod reports %+v, want a note about the limit", r)
	}
	g.checkBothAlive(t, g.vm)
	g.checkPinned(t, g.vm, g.size, g.lock(g.size))
	g.setMemoryMax(t, before)
	s.check(t, g, had)
}

// growingLimit is the memory limit of the launcher. Many DIMMs fit into it.
const growingLimit = 2 * gib

// runGrowing runs the VM with its sidecar.
func (f fixture) runGrowing(t *testing.T) *growing {
	t.Helper()
	group := f.bindVFIO(t)[0]
	f.output(t, "chown", itoa(libvirtUser), group)
	v := f.runWithSidecar(t, sidecarOptions{
		annotations: map[string]string{api.DevicesKey: "vfio=1", api.GuestMemoryKey: "64Mi"},
		groups:      []string{group, "/dev/vfio/vfio"}, devices: hostdev(vfioDevices[0]),
		prepare: []string{"--memory-capacity=1024", "--memory-device=dimm", "--cpu-capacity=2"},
		flags:   []string{fmt.Sprintf("--overhead=%d", growingOverhead)},
	})
	g := &growing{fixture: f, vm: v, size: 64 * mib}
	var err error
	if g.shim, err = f.processOf(t.Context(), f.pid(t, v.sidecar)); err != nil {
		t.Fatal(err)
	}
	if g.dir, err = f.cgroupOf(t.Context(), v.launcherProcess); err != nil {
		t.Fatal(err)
	}
	g.dir = "/sys/fs/cgroup" + g.dir
	f.awaitVMMemlock(t, v, g.lock(g.size)) // libvirt may first set its own limit
	f.checkPinned(t, v, g.size, g.lock(g.size))
	if err := v.launcher.Update(t.Context(), cri.Resources{MemoryLimit: growingLimit}); err != nil {
		t.Fatal(err)
	}
	return g
}
