package fencing

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

const (
	worlds   = 2000
	maxSteps = 100
)

// run executes random events and returns their names. check runs after each.
func run(w *world, r *rand.Rand, check func() error) (trace []string, err error) {
	for range 1 + r.IntN(maxSteps) {
		from := w.steps.progress
		if r.IntN(5) == 0 {
			from = w.steps.faults
		}
		s := from[r.IntN(len(from))]
		if !s.may(w) {
			continue
		}
		s.do(w)
		trace = append(trace, s.name)
		if err := check(); err != nil {
			return trace, err
		}
	}
	return trace, nil
}

// TestSafety: from the first decision to release a pod, no VM of it ever runs, whatever happens
// next.
func TestSafety(t *testing.T) {
	reasons := map[Reason]int{}
	for seed := range uint64(worlds) {
		r := rand.New(rand.NewPCG(seed, 0))
		w, released := newWorld(r), Decision{}
		trace, err := run(w, r, func() error {
			if w.deleted() && !released.Release {
				released = Decide(w.facts())
			}
			if released.Release && w.vm {
				return fmt.Errorf("a VM runs after the release: %s", released.Message)
			}
			return nil
		})
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, strings.Join(trace, "\n"))
		}
		if released.Release {
			reasons[released.Reason]++
		}
	}
	for _, reason := range []Reason{NeverBound, NeverStarted, VMEnded, NodeOutOfService} {
		if reasons[reason] == 0 {
			t.Errorf("no world reached %s: %v", reason, reasons)
		}
	}
}

// TestLiveness: each wait has a reason and a message. Once all parts work again, or an administrator
// has acted, each deleted pod is released.
func TestLiveness(t *testing.T) {
	seen := map[Reason]bool{}
	for seed := range uint64(worlds) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(r)
		trace, err := run(w, r, func() error {
			if !w.deleted() {
				return nil
			}
			d := Decide(w.facts())
			if d.Reason == "" || d.Message == "" {
				return fmt.Errorf("decision %+v", d)
			}
			if !d.Release {
				seen[d.Reason] = true
			}
			return nil
		})
		if err == nil {
			err = recovered(w)
		}
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, strings.Join(trace, "\n"))
		}
	}
	for _, reason := range Reasons() {
		if !seen[reason] {
			t.Errorf("no world waited for %s", reason)
		}
	}
}

// recovered lets each part act in turn without faults, and returns an error if the pod still waits.
func recovered(w *world) error {
	do := func(name string) {
		for _, s := range slices.Concat(w.steps.progress, w.steps.faults) {
			if s.name == name && s.may(w) {
				s.do(w)
			}
		}
	}
	do("delete")
	if !w.on && w.node != nil {
		do("the node is out of service")
	}
	w.kubeletUp, w.kubeletOnline, w.agentUp, w.agentOnline = true, true, true, true
	for range 2 {
		for _, name := range []string{"power on", "the Node registers", "the node is delayed",
			"kubelet learns the pod", "kubelet kills the pod", "kubelet writes the status",
			"the VM ends", "the agent reports"} {
			if d := Decide(w.facts()); d.Release {
				return nil
			}
			do(name)
		}
	}
	d := Decide(w.facts())
	// Kubelet never reports the end of a container that it never started, and pod garbage
	// collection has failed the pod in its place.
	if d.Release || d.Reason == LauncherRuns && !everStarted(w.pod) {
		return nil
	}
	return fmt.Errorf("the pod waits: %+v", d)
}
