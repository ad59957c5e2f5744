package controller

import (
	"errors"
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/mooring-vm/mooring/quota/controller/controllertest"
)

// TestLateWriteOfAnOldLeader has a new leader take over at each write of the old one. The write of
// the old leader arrives when the new one has followed the migration for up to three more steps.
// The quota never falls below its base, and the new leader reaches the same states.
func TestLateWriteOfAnOldLeader(t *testing.T) {
	for name, life := range lives() {
		for ahead := range life {
			writes := 0
			for lateWrite(t, name, life, writes, ahead) {
				writes++
			}
			if writes < 5 {
				t.Errorf("%s: taken over at %d writes only", name, writes)
			}
		}
	}
}

// lateWrite runs a history with a takeover at the nth write. It reports whether there was one.
func lateWrite(t *testing.T, name string, life []step, n, ahead int) (taken bool) {
	t.Run(fmt.Sprintf("%s/%d/ahead=%d", name, n, ahead), func(t *testing.T) {
		w, next := newWorld(t), 0
		var leader *Reconciler
		follow := func(r *Reconciler) error {
			life[next].happen(t, w)
			next++
			return w.settle(t, r)
		}
		old := &controllertest.Killer{Writes: n, AnswerLost: true, Before: func() {
			leader = w.reconciler(interceptor.Funcs{})
			w.must(t, w.settle(t, leader))
			for range min(ahead, len(life)-next) {
				w.must(t, follow(leader))
			}
		}}
		r := w.reconciler(old.Hooks())
		for next < len(life) {
			err := follow(r)
			w.check(t)
			if errors.Is(err, controllertest.ErrKilled) {
				r = leader
				err = w.settle(t, r)
			}
			w.must(t, err)
			w.check(t)
			life[next-1].want(t, w)
		}
		taken = old.Killed()
	})
	return taken
}
