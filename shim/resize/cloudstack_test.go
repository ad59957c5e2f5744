package resize_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/shim/resize/target"
	"github.com/mooring-vm/mooring/shim/virt"
)

// The cases of CloudStack's live scaling (LibvirtScaleVmCommandWrapper and its callers), each with
// the result here. The tests of package target cover the bandwidth from a frequency ratio.
func TestCloudStackCases(t *testing.T) {
	for _, c := range []struct {
		name, theirs, ours string
		m                  *model
		memory             uint64
		vcpus              int
		steps              string // prefixes of the lines, in order
		err                string
		after              uint64
		plugged            int
	}{
		{
			"memory and vCPUs",
			"memory, then vCPUs, both live",
			"the same order, after memory.max",
			vm(t),
			2 * gi,
			4,
			"+ wait|+ plug a DIMM of 1Gi|+ change the number of vCPUs",
			"",
			2 * gi,
			4,
		},
		{
			"only less memory",
			"refused: only scaling up",
			"shrinks",
			vm(t).dimm(gi),
			gi,
			2,
			"+ unplug dimm1|+ wait",
			"",
			gi,
			2,
		},
		{
			"less of one, more of another",
			"refused: only scaling up",
			"shrinks, then grows",
			vm(t).dimm(gi),
			gi,
			4,
			"+ wait|+ unplug|+ change the number of vCPUs|+ wait",
			"",
			gi,
			4,
		},
		{
			"vCPUs fail after memory",
			"answers false, the DIMM stays and is missing in the database",
			"unplugs the DIMM and reports the actual size",
			vmIgnoringVCPUs(t),
			2 * gi,
			4,
			"+ wait|+ plug|- change the number of vCPUs|<+ change the number of vCPUs|<+ unplug",
			"uses 2 of its 4 vCPUs",
			gi,
			2,
		},
		{
			"not prepared",
			"fails at the agent, after limits were reserved",
			"refused before any change",
			changedVM(t, func(m *model) { m.state.Memory.Maximum = 0 }),
			2 * gi,
			2,
			"",
			"the domain has no headroom: want a virtio-mem device",
			gi,
			2,
		},
		{
			"not prepared for vCPUs, memory is",
			"fails after the DIMM was plugged",
			"refused before any change",
			changedVM(t, func(m *model) { m.state.VCPUs.Maximum, m.state.VCPUs.Boot = 2, 2 }),
			2 * gi,
			4,
			"",
			"vCPUs: the domain has no headroom",
			gi,
			2,
		},
		{
			"a second time, above the maximum",
			"error 530",
			"refused with the maximum",
			vm(t).dimm(4 * gi),
			9 * gi,
			2,
			"",
			"exceeds the domain's <maxMemory>, 8Gi",
			5 * gi,
			2,
		},
		{
			"all slots are in use",
			"fails when attaching",
			"refused",
			changedVM(t, func(m *model) { m.dimm(128 * mi).state.Memory.Slots = 1 }),
			2 * gi,
			2,
			"",
			"all 1 memory slots",
			gi + 128*mi,
			2,
		},
		{
			"a part of a block",
			"attached, and the guest cannot use it",
			"refused with the nearest sizes",
			vm(t),
			gi + 100*mi,
			2,
			"",
			"want 1Gi or 1152Mi",
			gi,
			2,
		},
		{
			"several NUMA cells",
			"always node 0",
			"the cell with the least device memory",
			vm(t).dimm(gi),
			3 * gi,
			2,
			"+ wait|+ plug a DIMM of 1Gi into NUMA cell 1",
			"",
			3 * gi,
			2,
		},
		{
			"an idle vCPU",
			"does not count as running, so vCPUs are set again",
			"nothing to do",
			changedVM(t, func(m *model) { m.state.VCPUs.Online, m.guest.refuseTake = 1, true }),
			gi,
			2,
			"",
			"",
			gi,
			2,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(c.m)
			w := r.m.target(c.memory, c.vcpus)
			if len(c.steps) == 0 {
				w.Limit += 16 * mi
			}
			report, err := r.run(t, w)
			if (err == nil) != (c.err == "") ||
				err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf(
					"%s (theirs: %s; ours: %s): %v, want %q", c.name, c.theirs, c.ours, err, c.err,
				)
			}
			if !hasLinePrefixes(stepLog(report), c.steps) || report.Actual.Memory != c.after ||
				report.Actual.VCPUs != c.plugged {
				t.Errorf(
					"%s (theirs: %s; ours: %s): %+v\n%s", c.name, c.theirs, c.ours, report.Actual,
					stepLog(report),
				)
			}
		})
	}
}

func changedVM(t *testing.T, f func(*model)) *model {
	m := vm(t)
	f(m)
	return m
}

// vmIgnoringVCPUs has a guest that uses no new vCPU.
func vmIgnoringVCPUs(t *testing.T) *model {
	m := vm(t)
	m.guest.refuseTake = true
	return m
}

// hasLinePrefixes reports whether each line has its prefix.
func hasLinePrefixes(lines, prefixes string) bool {
	got, want := strings.Split(lines, "\n"), strings.Split(prefixes, "|")
	if len(got) != len(want) {
		return false
	}
	for i := range got {
		if !strings.HasPrefix(got[i], want[i]) {
			return false
		}
	}
	return true
}

// CloudStack sets shares, period and quota in three calls. It removes a limit by the quota only,
// and never lowers shares. Here one call sets all, and shares go both ways.
func TestBandwidthInOneCall(t *testing.T) {
	for _, c := range []struct {
		name            string
		period, quota   time.Duration // of the domain
		want            target.Target
		calls           int
		periodThen, now time.Duration
		shares          uint64
	}{
		{
			"set",
			100 * time.Millisecond,
			virt.Unlimited,
			bandwidthTarget(time.Second, 50*time.Millisecond, 0),
			1,
			time.Second,
			50 * time.Millisecond,
			100,
		},
		{
			"changed",
			time.Second,
			50 * time.Millisecond,
			bandwidthTarget(100*time.Millisecond, 50*time.Millisecond, 0),
			1,
			100 * time.Millisecond,
			50 * time.Millisecond,
			100,
		},
		{
			"removed",
			time.Second,
			50 * time.Millisecond,
			bandwidthTarget(100*time.Millisecond, virt.Unlimited, 0),
			1,
			100 * time.Millisecond,
			virt.Unlimited,
			100,
		},
		{
			"no limit, other period",
			time.Second,
			virt.Unlimited,
			bandwidthTarget(100*time.Millisecond, virt.Unlimited, 0),
			0,
			time.Second,
			virt.Unlimited,
			100,
		},
		{
			"with more shares",
			100 * time.Millisecond,
			virt.Unlimited,
			bandwidthTarget(time.Second, 50*time.Millisecond, 200),
			1,
			time.Second,
			50 * time.Millisecond,
			200,
		},
		{
			"with fewer shares",
			time.Second,
			50 * time.Millisecond,
			bandwidthTarget(100*time.Millisecond, virt.Unlimited, 50),
			1,
			100 * time.Millisecond,
			virt.Unlimited,
			50,
		},
		{
			"same limit, more shares",
			time.Second,
			50 * time.Millisecond,
			bandwidthTarget(time.Second, 50*time.Millisecond, 200),
			1,
			time.Second,
			50 * time.Millisecond,
			200,
		},
		{
			"shares alone",
			time.Second,
			50 * time.Millisecond,
			target.Target{Size: api.Size{CPUShares: 2}},
			1,
			time.Second,
			50 * time.Millisecond,
			2,
		},
		{
			"no change",
			time.Second,
			50 * time.Millisecond,
			bandwidthTarget(time.Second, 50*time.Millisecond, 100),
			0,
			time.Second,
			50 * time.Millisecond,
			100,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(vm(t))
			r.m.state.Bandwidth.Period, r.m.state.Bandwidth.Quota = c.period, c.quota
			calls := 0
			r.m.afterChange = func() { calls++ }
			report, err := r.run(t, c.want)
			b := r.m.state.Bandwidth
			if err != nil || calls != c.calls || b.Period != c.periodThen || b.Quota != c.now ||
				b.Shares != c.shares ||
				report.Actual.Shares != c.shares {
				t.Errorf(
					"%s: %v, %d calls, %+v, reported as %+v", c.name, err, calls, b, report.Actual,
				)
			}
		})
	}
}

// bandwidthTarget is a target with a bandwidth, and with shares if they are not 0.
func bandwidthTarget(period, quota time.Duration, shares int) target.Target {
	return target.Target{
		Size:      api.Size{CPUShares: shares},
		Bandwidth: &target.Bandwidth{Period: period, Quota: quota},
	}
}
