package main

import (
	"math/rand/v2"
	"testing"
)

// At least 40 % of the executed steps are faults, at each length of a run, and also if the node can
// execute few of the faults. Each step is chosen in a run of the default length.
func TestFaultsAmongTheSteps(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 0))
		c, chosen := newChooser(r), map[string]bool{}
		for c.done < 2000 {
			s, fault := c.next()
			chosen[s.name] = true
			if fault && r.IntN(10) > 0 {
				continue // skipped
			}
			c.count(s, fault)
			if 100*c.faulty < faultPercent*c.done {
				t.Fatalf("seed %d: %d faults in %d steps", seed, c.faulty, c.done)
			}
		}
		for _, s := range append(events(), faults()...) {
			if !chosen[s.name] {
				t.Errorf("seed %d: step %q was never chosen", seed, s.name)
			}
		}
		if c.faulty == c.done {
			t.Errorf("seed %d: no event among the steps", seed)
		}
	}
}

// A run as long as the one in CI executes each fault, although the node refuses some for a while.
func TestEachFaultInAShortRun(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 0))
		c := newChooser(r)
		for c.done < 200 {
			s, fault := c.next()
			if fault && r.IntN(2) == 0 {
				continue // skipped
			}
			c.count(s, fault)
		}
		if err := c.checkFaults(); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
	never := newChooser(rand.New(rand.NewPCG(1, 0)))
	never.done = 200
	if err := never.checkFaults(); err == nil {
		t.Error("a run without faults passes")
	}
}
