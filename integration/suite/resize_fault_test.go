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

// TestResizeUnderFaults: a VM grows by one DIMM after the other, all of which its QEMU
// pins, while its agent is killed or somebody else writes to its container's memory.max,
// each between two records of the shim's journal.
func TestResizeUnderFaults(t *testing.T) {
	f := setUpVMs(t)
	f.pushShim(t)
	f.pushProgram(t, "./hold", holdProgram)
	g := f.runGrowing(t)
	for _, m := range []moment{
		{"the shim waits for memory.max", 1, 0, keepLow},
		{"memory.max was seen", 1, 0, storing(1, 0)},
		{"the lock is raised", 2, 1, storing(2, 1)},
		{"the DIMM is ordered", 3, 2, stopVM},
	} {
		t.Run("agent killed when "+m.name, func(t *testing.T) { g.agentKilled(t, m) })
	}
	t.Run("agent killed while the shim hangs", g.needOutlives)
	t.Run("memory.max lowered before the DIMM is ordered", g.loweredBefore)
	t.Run("memory.max lowered after the DIMM was ordered", g.loweredAfter)
	f.neverTold(t, g.pod, agentapi.ReasonVMTerminated)
}

// agentKilled: what changes while no agent runs is found by the next, and the shim goes
// on with it. Nothing of what was done is undone.
func (g *growing) agentKilled(t *testing.T, m moment) {
	t.Helper()
	had, s, told := g.size, g.sampleLimits(t), len(g.shimLog(t))
	release := g.reach(t, m)
	start := g.killAgent(t)
	defer start()
	release()
	start()
	g.awaitDone(t)
	g.bothLive(t, g.vm)
	g.pins(t, g.vm, g.size, g.lock(g.size))
	s.kept(t, g, had)
	for _, undone := range []string{"give back", "lower the memory lock"} {
		if log := g.shimLog(t)[told:]; strings.Contains(log, undone) {
			t.Errorf("the shim has undone something:\n%s", log)
		}
	}
}

// needOutlives: nobody but the agent that was killed can have told the next what the VM
// needs.
func (g *growing) needOutlives(t *testing.T) {
	g.awaitDone(t)
	g.send(t, "STOP", g.shim)
	killedAndBack(t, g.fixture)
	g.awaitVM(t, g.vm, agentapi.VMRunning)
	g.keepsLimit(t, g.vm, g.need(g.size)-pageSize, "its VM needs "+api.Bytes(g.need(g.size)).String())
	if got := g.output(t, "grep", "^State:", "/proc/"+itoa(g.shim.pid)+"/status"); !strings.Contains(got, "T (stopped)") {
		t.Errorf("the shim was to hang, and has %s", got)
	}
	g.takesLimit(t, g.vm, growingLimit)
	g.send(t, "CONT", g.shim)
	g.awaitDone(t)
}

// loweredBefore: nothing is plugged that memory.max has no room for, and what was done
// until then is undone. When the limit is back it is plugged.
func (g *growing) loweredBefore(t *testing.T) {
	had, s := g.size, g.sampleLimits(t)
	release := g.reach(t, moment{begun: 1, holds: storing(1, 0)}) // memory.max was seen
	before := g.memoryMax(t)
	g.setMemoryMax(t, fmt.Sprint(g.need(had)))
	release()
	g.toldOfRoom(t, had)
	g.bothLive(t, g.vm)
	g.pins(t, g.vm, had, g.lock(had)) // and no more
	g.awaitRecord(t, 1, 0)            // when it tries again, it waits
	if got := g.plugged(t); got != had {
		t.Errorf("the domain has %d bytes, want %d, with a memory.max that has no room for more", got, had)
	}
	g.setMemoryMax(t, before)
	g.awaitDone(t)
	g.pins(t, g.vm, g.size, g.lock(g.size))
	s.kept(t, g, had)
}

// toldOfRoom waits until people are told why the VM has the size that it had.
func (g *growing) toldOfRoom(t *testing.T, had int64) {
	t.Helper()
	var r podapi.Report
	eventually(t, "the resize to fail", func() bool {
		r = g.reported(t, g.vm)
		return r.State == podapi.StateFailed
	}, func() string { return fmt.Sprintf("%+v", r) })
	why := fmt.Sprintf("plug a DIMM of %s into NUMA cell 0: memory.max of the pod is no limit and that of the container %s: want at least %s",
		api.Bytes(dimm), api.Bytes(g.need(had)), api.Bytes(g.need(g.size)))
	if r.Error != why || r.Actual == nil || r.Actual.Memory != uint64(had) {
		t.Errorf("the pod reports %+v, want %d bytes, and the error %q", r, had, why)
	}
	back := func(s podapi.Step) bool {
		return s.Rollback && s.Error == "" && strings.HasPrefix(s.Description, "lower the memory lock")
	}
	if !slices.ContainsFunc(r.Steps, back) {
		t.Errorf("the pod reports the steps %+v, want the memory lock lowered again", r.Steps)
	}
}

// loweredAfter: what QEMU was told to plug it has, and the VM is as it is wanted.
func (g *growing) loweredAfter(t *testing.T) {
	had, s := g.size, g.sampleLimits(t)
	release := g.reach(t, moment{begun: 3, confirmed: 2, holds: stopVM})
	before := g.memoryMax(t)
	g.setMemoryMax(t, fmt.Sprint(g.need(g.size)-pageSize))
	release()
	r := g.awaitDone(t)
	if low := func(note string) bool { return strings.HasPrefix(note, "memory.max is ") }; r.Error != "" || !slices.ContainsFunc(r.Notes, low) {
		t.Errorf("the pod reports %+v, want a note of the limit", r)
	}
	g.bothLive(t, g.vm)
	g.pins(t, g.vm, g.size, g.lock(g.size))
	g.setMemoryMax(t, before)
	s.kept(t, g, had)
}

// growingLimit is the memory limit of a launcher whose VM grows by many DIMMs.
const growingLimit = 2 * gib

// runGrowing runs the VM.
func (f fixture) runGrowing(t *testing.T) *growing {
	t.Helper()
	group := f.bindVFIO(t)[0]
	f.output(t, "chown", itoa(libvirtUser), group)
	v := f.runWithSidecar(t, withSidecar{
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
	if g.dir, err = f.cgroupOf(t.Context(), v.owner); err != nil {
		t.Fatal(err)
	}
	g.dir = "/sys/fs/cgroup" + g.dir
	f.lockedTo(t, v, g.lock(g.size)) // libvirt may have set its own at first
	f.pins(t, v, g.size, g.lock(g.size))
	if err := v.launcher.Update(t.Context(), cri.Resources{MemoryLimit: growingLimit}); err != nil {
		t.Fatal(err)
	}
	return g
}
