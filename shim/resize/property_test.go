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

// failer is what fails a test, be it rapid's.
type failer interface {
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// world is a model with a shim that is killed and started again.
type world struct {
	t       failer
	m       *model
	journal *memory
	want    target.Target
	policy  resize.Policy
	fine    bool // the guest can have any size
}

func (w *world) runner() *resize.Runner {
	return &resize.Runner{Domain: w.m, Node: agent{w.m}, Journal: w.journal, Policy: w.policy}
}

func (w *world) wish() target.Target { return w.want }

// size draws a size that the model can have.
func (w *world) size(t *rapid.T) target.Target {
	boot := w.m.state.Memory.Boot
	memory := boot + uint64(rapid.IntRange(0, 8).Draw(t, "blocks"))*128*mi
	if w.policy.Balloon && rapid.Bool().Draw(t, "below boot") {
		memory = boot - 128*mi
	}
	if hasDIMMs(w.m) {
		memory = rapid.SampledFrom(w.reachable()).Draw(t, "memory")
	}
	vcpus := rapid.IntRange(1, 8).Draw(t, "vcpus")
	if w.want.Generation > 0 && !w.fine {
		memory = w.want.GuestMemory() // whole DIMMs may not lead from one size to the other
	}
	overhead := w.m.overhead(memory, vcpus)
	quota := rapid.SampledFrom([]time.Duration{virt.Unlimited, 20 * time.Millisecond, 50 * time.Millisecond}).Draw(t, "quota")
	return target.Target{
		Size: api.Size{
			Memory: api.Bytes(memory), VCPUs: vcpus,
			CPUShares: rapid.SampledFrom([]int{0, 2, 100, 10000}).Draw(t, "shares"),
		},
		Overhead: overhead, Limit: memory + overhead + uint64(rapid.IntRange(0, 3).Draw(t, "spare"))*8*mi,
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

// reachable lists sizes that a guest with DIMMs can grow or shrink to, in whatever order.
func (w *world) reachable() []uint64 {
	boot, most := w.m.state.Memory.Boot, uint64(0)
	for _, d := range w.m.state.Memory.Devices {
		most += d.Size
	}
	return []uint64{boot, boot + most, boot + most + 128*mi, boot + most + 512*mi}
}

func drawWorld(t *rapid.T) *world {
	m := newModel(gi, 16*gi, func(format string, args ...any) { t.Helper(); t.Fatalf(format, args...) })
	w := &world{t: t, m: m, policy: resize.Policy{Shrink: true}}
	switch rapid.SampledFrom([]string{"virtio-mem", "two virtio-mem", "dimm", "nothing", "balloon"}).Draw(t, "kind") {
	case "virtio-mem":
		m.virtioMem(2*gi, uint64(rapid.IntRange(0, 8).Draw(t, "has"))*128*mi)
	case "two virtio-mem":
		m.virtioMem(512*mi, 256*mi).virtioMem(gi, 0)
	case "dimm":
		m.dimm(256 * mi).dimm(128 * mi)
	case "balloon":
		m.virtioMem(2*gi, 0)
		w.policy.Balloon = true
	}
	if !w.policy.Balloon && rapid.Bool().Draw(t, "vfio") {
		m.passthrough()
		m.given(rapid.SampledFrom([]uint64{0, gi, 2560 * mi, 8 * gi}).Draw(t, "given"), rapid.Bool().Draw(t, "repaired"))
	}
	w.fine = len(m.state.Memory.Devices) > 0 && !hasDIMMs(m)
	m.guest.lag = rapid.IntRange(0, 5).Draw(t, "lag")
	m.node.backoff = rapid.IntRange(0, 3).Draw(t, "backoff")
	m.guest.refuseGive = rapid.IntRange(0, 3).Draw(t, "refuse to give") == 0
	m.guest.refuseTake = rapid.IntRange(0, 3).Draw(t, "refuse to take") == 0
	m.guest.partly = uint64(rapid.SampledFrom([]int{0, 0, 2, 64}).Draw(t, "partly")) * mi
	m.settled()
	w.journal = &memory{calls: &m.calls}
	return w
}

// aim sets what is wanted, of which kubelet knows, too.
func (w *world) aim(s target.Target) {
	s.Generation = w.want.Generation + 1
	w.want = s
	w.m.node.limit = s.Limit
}

// live runs a shim until it has done what it can, or is killed.
func (w *world) live() (report resize.Report, dead bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(killed); !ok {
				panic(r)
			}
			dead, w.m.calls.dead, w.m.node.held = true, false, false
		}
	}()
	report, recovered, err := w.runner().Recover(context.Background(), w.wish)
	if !recovered && err == nil {
		report, err = w.runner().Run(context.Background(), w.wish)
	}
	return report, false, err
}

// truthful checks that what was reported is so, and that no error means as wanted. What
// the guest uses of its vCPUs need not be known where they were left alone.
func (w *world) truthful(report resize.Report, err error) {
	if report.Actual == nil {
		if err == nil {
			w.t.Fatal("no error, and no report of what the VM is")
		}
		return
	}
	m := w.m.state
	truth := resize.Actual{
		Memory: m.Memory.Balloon, Possible: w.possible(), VCPUs: m.VCPUs.Plugged, Online: m.VCPUs.Online,
		Period: m.Bandwidth.Period, Quota: m.Bandwidth.Quota, Shares: m.Bandwidth.Shares,
		PodMax: w.m.node.seen.PodMax, ContainerMax: w.m.node.seen.ContainerMax,
		Lock: w.m.node.seen.Lock, Locked: w.m.node.seen.Locked,
	}
	if report.Actual.Online == virt.Unknown && !strings.Contains(steps(report), "vCPUs") {
		truth.Online = virt.Unknown
	}
	if diff := cmp.Diff(truth, *report.Actual); diff != "" {
		w.t.Fatalf("reported is not what is (-is +reported)\n%s", diff)
	}
	if err == nil && !w.is(report.Target) {
		w.t.Fatalf("no error, and the VM is %+v instead of %+v", truth, report.Target)
	}
}

// possible is as in the report: of a balloon only what it has done.
func (w *world) possible() uint64 {
	sum := w.m.state.Memory.Balloon
	for _, d := range w.m.state.Memory.Devices {
		sum += max(d.Requested, d.Current) - d.Current
	}
	return sum
}

func (w *world) is(desired target.Target) bool {
	is := w.m.state
	return is.Memory.Balloon == desired.GuestMemory() && is.VCPUs.Plugged == desired.VCPUs &&
		(desired.Bandwidth == nil || is.Bandwidth.Quota == desired.Bandwidth.Quota) &&
		(desired.CPUShares == 0 || is.Bandwidth.Shares == uint64(desired.CPUShares))
}

// mend ends all that goes wrong.
func (w *world) mend() {
	w.m.calls.faults, w.m.calls.out = nil, 0
	w.m.state.Migrating, w.m.calls.sawMigration = false, false
	w.m.node.intruder, w.m.node.limit = false, w.want.Limit
	lag := w.m.guest.lag
	w.m.guest = guest{lag: lag, balloonTo: w.m.guest.balloonTo, leaving: w.m.guest.leaving}
}

// No plan has the agent lower the lock below what the launcher was given, which it
// refuses, and a VM that is as wanted needs no plan.
func TestPlansOfTheLock(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		m := drawWorld(r).m
		is, err := resize.Read(context.Background(), m, agent{m})
		if err != nil {
			r.Fatal(err)
		}
		is.Limits.Lock = max(is.Limits.Lock, is.Limits.Floor)
		as := target.Target{Size: api.Size{Memory: api.Bytes(is.GuestMemory()), VCPUs: is.Domain.VCPUs.Plugged}}
		plan, err := resize.MakePlan(is, as, resize.Policy{})
		if wants, _ := is.RequiredLock(); err != nil || is.Limits.Lock == max(wants, is.Limits.Floor) && len(plan.Steps) > 0 {
			r.Fatalf("%+v is as wanted, and the plan %v, %v", is.Limits, texts(plan.Steps), err)
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
					r.Fatalf("%s, and the launcher was given %d", l, is.Limits.Floor)
				}
			}
		}
	})
}

// Whatever goes wrong, the VM never has more than its limits allow (the model checks
// that at each change), and what is told of it is the truth. When nothing goes wrong
// any more, the VM comes to be as it is wanted, and nothing is left to do.
func TestFaults(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		inBubble(t, func() {
			w := drawWorld(r)
			w.aim(w.size(r))
			other := w.size(r)
			w.m.calls.migrate = func() { w.m.state.Migrating = true }
			w.m.calls.change = func() { w.aim(other) }
			w.m.calls.intrude = func() { w.m.node.intruder = true }
			w.m.calls.faults = rapid.MapOfN(rapid.IntRange(0, 90), rapid.SampledFrom(allFaults), 0, 4).Draw(r, "faults")
			for range 6 {
				report, dead, err := w.live()
				if !dead {
					w.truthful(report, err)
					break
				}
			}
			w.mend()
			w.arrives()
		})
	})
}

// inBubble runs f, which may panic as rapid does, with a clock of its own.
func inBubble(t *testing.T, f func()) {
	var caught any
	synctest.Test(t, func(*testing.T) {
		defer func() { caught = recover() }()
		f()
	})
	switch {
	case caught == nil:
	case fmt.Sprintf("%T", caught) == "rapid.invalidData": // by the line rapid tells this from a failure
		panic(caught)
	default:
		panic(caught)
	}
}

// arrives checks that a shim without faults brings the VM to where it is wanted.
func (w *world) arrives() {
	report, recovered, err := w.runner().Recover(context.Background(), w.wish)
	if recovered {
		w.truthful(report, err)
	}
	report, err = w.runner().Run(context.Background(), w.wish)
	if err != nil || !report.TargetReached {
		w.t.Fatalf("with nothing wrong: %v, %+v", err, report)
	}
	w.truthful(report, err)
	is, err := resize.Read(context.Background(), w.m, agent{w.m})
	if err != nil {
		w.t.Fatal(err)
	}
	plan, err := resize.MakePlan(is, w.want, w.policy)
	if err != nil || len(plan.Steps) > 0 {
		w.t.Fatalf("the VM is as wanted, and there is left to do: %v, %v", plan.Steps, err)
	}
	if rec, err := w.journal.Load(); err == nil && rec.Phase != resize.Ended || err != nil && !errors.Is(err, resize.ErrNoRecord) {
		w.t.Fatalf("the journal says %+v, %v", rec.Phase, err)
	}
}
