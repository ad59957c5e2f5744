package supervisor_test

import (
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

func TestOwnGracePeriod(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		l := r.launch("vm", func(l *registry.Launcher) { l.GracePeriod = 2 * gracePeriod })
		vm := r.startQEMU(l.cgroup)
		r.requestStop(l)
		r.advance(2*gracePeriod - time.Second)
		r.expectSignals(vm)
		r.advance(time.Second)
		r.expectSignals(vm, "TERM")
	})
}

// New terms apply to a stop in progress and to later launchers. A launcher keeps its own grace
// period.
func TestNewTerms(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		own := func(l *registry.Launcher) { l.GracePeriod = 2 * gracePeriod }
		r.kernel.Ignores = func(int, string) bool { return true }
		first := r.launch("first", own)
		vm := r.startQEMU(first.cgroup)
		r.requestStop(first)
		terms := r.config.Terms
		terms.Enforce = false
		r.SetTerms(terms)
		second := r.launch("second", own)
		other := r.startQEMU(second.cgroup)
		r.exit(second.process, "SIGKILL")
		r.advance(10 * gracePeriod)
		r.expectSignals(vm)
		r.expectSignals(other)
		terms.Enforce, terms.TermPeriod = true, 3*termPeriod
		r.SetTerms(terms)
		r.advance(2*gracePeriod + 3*termPeriod - time.Second)
		r.expectSignals(vm, "TERM")
		r.advance(2 * time.Second)
		r.expectSignals(vm, "TERM", "KILL")
	})
}

// The fence stays a fence under new terms: it ends no VM without a tie.
func TestFenceWithNewTerms(t *testing.T) {
	inBubble(t, nil, func(r *rig) {
		r.stop()
		r.config.Terms.ProofOnly = true
		r.start()
		r.Reconciled()
		r.SetTerms(tie.Terms{Enforce: true, GracePeriod: gracePeriod, TermPeriod: termPeriod})
		r.launch("other", func(l *registry.Launcher) { l.Domain = "two" })
		vm := r.startOwned(goneOwner)
		r.advance(time.Hour)
		r.expectSignals(vm)
		r.expectNotes(0, agentapi.ReasonOwnerGone, goneOwner, "")
	})
}
