package resize_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/shim/resize"
	"github.com/mooring-vm/mooring/shim/resize/target"
	"github.com/mooring-vm/mooring/shim/virt"
)

// failingT is a test of package testing or of rapid.
type failingT interface {
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// world is a model with a shim that can die and restart.
type world struct {
	t       failingT
	m       *model
	journal *memoryJournal
	desired target.Target
	policy  resize.Policy
	anySize bool // the guest can reach any size
}

func (w *world) runner() *resize.Runner {
	return &resize.Runner{
		Domain: w.m, Node: agent{w.m}, Journal: w.journal, Policy: w.policy,
		Overhead: w.m.overheadFunc,
	}
}

func (w *world) targetFunc() target.Target { return w.desired }

// drawTarget draws a target that the model can reach.
func (w *world) drawTarget(t *rapid.T) target.Target {
	boot := w.m.state.Memory.Boot
	memory := boot + uint64(rapid.IntRange(0, 8).Draw(t, "blocks"))*128*mi
	if w.policy.Balloon && rapid.Bool().Draw(t, "below boot") {
		memory = boot - 128*mi
	}
	if hasDIMMs(w.m) {
		memory = rapid.SampledFrom(w.reachable()).Draw(t, "memory")
	}
	vcpus := rapid.IntRange(1, 8).Draw(t, "vcpus")
	if w.desired.Generation > 0 && !w.anySize {
		memory = w.desired.GuestMemory() // whole DIMMs may not allow the new size
	}
	overhead := w.m.overhead(memory, vcpus)
	quota := rapid.SampledFrom(
		[]time.Duration{virt.Unlimited, 20 * time.Millisecond, 50 * time.Millisecond},
	).Draw(t, "quota")
	return target.Target{
		Size: api.Size{
			Memory: api.Bytes(memory), VCPUs: vcpus,
			CPUShares: rapid.SampledFrom([]int{0, 2, 100, 10000}).Draw(t, "shares"),
		},
		Overhead:  overhead,
		Limit:     memory + overhead + uint64(rapid.IntRange(0, 3).Draw(t, "spare"))*8*mi,
		Bandwidth: &target.Bandwidth{Period: 100 * time.Millisecond, Quota: quota},
	}
}

func hasDIMMs(m *model) bool {
	for _, d := range m.state.Memory.Devices {
		if d.Model == virt.DIMM {
			return true
		}
	}
	return false
}

// reachable lists sizes that a guest with DIMMs can reach in any order.
func (w *world) reachable() []uint64 {
	boot, most := w.m.state.Memory.Boot, uint64(0)
	for _, d := range w.m.state.Memory.Devices {
		most += d.Size
	}
	return []uint64{boot, boot + most, boot + most + 128*mi, boot + most + 512*mi}
}

func drawWorld(t *rapid.T) *world {
	m := newModel(
		gi, 16*gi, func(format string, args ...any) { t.Helper(); t.Fatalf(format, args...) },
	)
	w := &world{t: t, m: m, policy: resize.Policy{Shrink: true}}
	switch rapid.SampledFrom([]string{"virtio-mem", "two virtio-mem", "dimm", "nothing",
		"balloon", "kubevirt"}).
		Draw(t, "kind") {
	case "virtio-mem":
		m.virtioMem(2*gi, uint64(rapid.IntRange(0, 8).Draw(t, "has"))*128*mi)
	case "two virtio-mem":
		m.virtioMem(512*mi, 256*mi).virtioMem(gi, 0)
	case "kubevirt":
		m.likeKubeVirt()
	case "dimm":
		m.dimm(256 * mi).dimm(128 * mi)
	case "balloon":
		m.virtioMem(2*gi, 0)
		w.policy.Balloon = true
	}
	if !w.policy.Balloon && rapid.Bool().Draw(t, "vfio") {
		m.passthrough()
		m.withLauncherLock(
			rapid.SampledFrom([]uint64{0, gi, 2560 * mi, 8 * gi}).Draw(t, "given"),
			rapid.Bool().Draw(t, "repaired"),
		)
	}
	w.anySize = resize.GrowthUnit(m.state.Memory) == 2*mi && !hasDIMMs(m)
	m.guest.lag = rapid.IntRange(0, 5).Draw(t, "lag")
	m.node.backoff = rapid.IntRange(0, 3).Draw(t, "backoff")
	m.guest.refuseGive = rapid.IntRange(0, 3).Draw(t, "refuse to give") == 0
	m.guest.refuseTake = rapid.IntRange(0, 3).Draw(t, "refuse to take") == 0
	m.guest.portionLeft = uint64(rapid.SampledFrom([]int{0, 0, 2, 64}).Draw(t, "partly")) * mi
	m.withLimits()
	w.journal = &memoryJournal{calls: &m.calls}
	return w
}

// setTarget sets the target and kubelet's limit.
func (w *world) setTarget(s target.Target) {
	s.Generation = w.desired.Generation + 1
	w.desired = s
	w.m.node.desiredLimit = s.Limit
}

// runShim runs a shim until it has finished or dies.
func (w *world) runShim() (report resize.Report, dead bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(shimKilled); !ok {
				panic(r)
			}
			dead, w.m.calls.dead, w.m.node.migrationsHeld = true, false, false
		}
	}()
	report, recovered, err := w.runner().Recover(context.Background(), w.targetFunc)
	if !recovered && err == nil {
		report, err = w.runner().Run(context.Background(), w.targetFunc)
	}
	return report, false, err
}

// expectTruthful checks that the report shows the actual size, and that a run without an error has
// reached the target. Online vCPUs may be unknown if no step changed vCPUs.
func (w *world) expectTruthful(report resize.Report, err error) {
	if report.Actual == nil {
		if err == nil {
			w.t.Fatal("no error and no actual size in the report")
		}
		return
	}
	m := w.m.state
	truth := resize.Actual{
		Memory:       m.Memory.Balloon,
		Possible:     w.possible(),
		VCPUs:        m.VCPUs.Plugged,
		Online:       m.VCPUs.Online,
		Period:       m.Bandwidth.Period,
		Quota:        m.Bandwidth.Quota,
		Shares:       m.Bandwidth.Shares,
		PodMax:       w.m.node.limits.PodMax,
		ContainerMax: w.m.node.limits.ContainerMax,
		Lock:         w.m.node.limits.Lock,
		Locked:       w.m.node.limits.Locked,
	}
	if report.Actual.Online == virt.Unknown && !strings.Contains(stepLog(report), "vCPUs") {
		truth.Online = virt.Unknown
	}
	if diff := cmp.Diff(truth, *report.Actual); diff != "" {
		w.t.Fatalf("wrong report (-actual +reported)\n%s", diff)
	}
	if err == nil && !w.matches(report.Target) {
		w.t.Fatalf("no error, actual size %+v, target %+v", truth, report.Target)
	}
}

// possible matches the report: it ignores unfinished balloon requests.
func (w *world) possible() uint64 {
	sum := w.m.state.Memory.Balloon
	for _, d := range w.m.state.Memory.Devices {
		sum += max(d.Requested, d.Current) - d.Current
	}
	return sum
}

func (w *world) matches(desired target.Target) bool {
	is := w.m.state
	return is.Memory.Balloon == desired.GuestMemory() && is.VCPUs.Plugged == desired.VCPUs &&
		(desired.Bandwidth == nil || is.Bandwidth.Quota == desired.Bandwidth.Quota) &&
		(desired.CPUShares == 0 || is.Bandwidth.Shares == uint64(desired.CPUShares))
}

// removeFaults ends all faults.
func (w *world) removeFaults() {
	w.m.calls.faults, w.m.calls.lostCalls = nil, 0
	w.m.state.Migrating, w.m.calls.sawMigration = false, false
	w.m.node.lowerLimit, w.m.node.desiredLimit = false, w.desired.Limit
	lag := w.m.guest.lag
	w.m.guest = guest{
		lag:           lag,
		balloonTarget: w.m.guest.balloonTarget,
		detaching:     w.m.guest.detaching,
	}
}

// No plan lowers the lock below the launcher's own limit, which the agent would refuse. A VM at its
// target needs no steps.
func TestLockPlans(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		m := drawWorld(r).m
		is, err := resize.Read(context.Background(), m, agent{m})
		if err != nil {
			r.Fatal(err)
		}
		is.Limits.Lock = max(is.Limits.Lock, is.Limits.Floor)
		as := target.Target{
			Size: api.Size{Memory: api.Bytes(is.GuestMemory()), VCPUs: is.Domain.VCPUs.Plugged},
		}
		plan, err := resize.MakePlan(is, as, resize.Policy{})
		wants, _ := is.RequiredLock()
		if err != nil || is.Limits.Lock == max(wants, is.Limits.Floor) && len(plan.Steps) > 0 {
			r.Fatalf("%+v is at the target, plan %v, %v", is.Limits, descriptions(plan.Steps), err)
		}
		is.Limits.Lock += uint64(rapid.IntRange(0, 4).Draw(r, "more")) * gi
		for _, memory := range []uint64{gi, is.GuestMemory()} {
			as.Memory = api.Bytes(memory)
			plan, err := resize.MakePlan(is, as, resize.Policy{Shrink: true})
			if err != nil {
				r.Fatal(err)
			}
			for _, s := range plan.Steps {
				if l, ok := s.(resize.LowerLock); ok && l.To < is.Limits.Floor {
					r.Fatalf("%s, below the launcher's own limit of %d", l, is.Limits.Floor)
				}
			}
		}
	})
}

// With any faults the VM never exceeds its limits (the model checks each change), and reports show
// the actual size. After the faults the VM reaches its target, and no step is left.
func TestFaults(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		inBubble(t, func() {
			w := drawWorld(r)
			w.setTarget(w.drawTarget(r))
			other := w.drawTarget(r)
			w.m.calls.migrate = func() { w.m.state.Migrating = true }
			w.m.calls.change = func() { w.setTarget(other) }
			w.m.calls.lowerLimit = func() { w.m.node.lowerLimit = true }
			w.m.calls.faults = rapid.MapOfN(
				rapid.IntRange(0, 90), rapid.SampledFrom(allFaults), 0, 4,
			).Draw(r, "faults")
			for range 6 {
				report, dead, err := w.runShim()
				if !dead {
					w.expectTruthful(report, err)
					break
				}
			}
			w.removeFaults()
			w.expectReached()
		})
	})
}

// inBubble runs f with a fake clock. It passes on rapid's panics.
func inBubble(t *testing.T, f func()) {
	var caught any
	synctest.Test(t, func(*testing.T) {
		defer func() { caught = recover() }()
		f()
	})
	switch {
	case caught == nil:
	// rapid distinguishes this from a failure by the line of the panic.
	case fmt.Sprintf("%T", caught) == "rapid.invalidData":
		panic(caught)
	default:
		panic(caught)
	}
}

// expectReached checks that a shim without faults reaches the target.
func (w *world) expectReached() {
	report, recovered, err := w.runner().Recover(context.Background(), w.targetFunc)
	if recovered {
		w.expectTruthful(report, err)
	}
	report, err = w.runner().Run(context.Background(), w.targetFunc)
	if err != nil || !report.TargetReached {
		w.t.Fatalf("without faults: %v, %+v", err, report)
	}
	w.expectTruthful(report, err)
	is, err := resize.Read(context.Background(), w.m, agent{w.m})
	if err != nil {
		w.t.Fatal(err)
	}
	plan, err := resize.MakePlan(is, w.desired, w.policy)
	if err != nil || len(plan.Steps) > 0 {
		w.t.Fatalf("steps left at the target: %v, %v", plan.Steps, err)
	}
	if rec, err := w.journal.Load(); err == nil && rec.Phase != resize.Ended ||
		err != nil && !errors.Is(err, resize.ErrNoRecord) {
		w.t.Fatalf("the journal says %+v, %v", rec.Phase, err)
	}
}
