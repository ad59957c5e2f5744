package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// knownLaunchers is the number of launchers on the node during the measurement.
const knownLaunchers = 1000

// samples are measurements in seconds by name. Equal indexes belong to the same round.
type samples map[string][]float64

func (s samples) add(name string, took time.Duration) { s[name] = append(s[name], took.Seconds()) }

// cell returns the name of a candidate's measurements with a workload.
func cell(candidate, workload string) string { return candidate + ", " + workload }

// roundTrips measures the time from a runtime's CreateContainer to the answer. Each round calls
// every candidate once for every workload, in random order. So disturbances of the machine affect
// all alike. Every pod is new.
func roundTrips(ctx context.Context, rounds int) (_ samples, err error) {
	all, err := startCandidates(ctx)
	defer func() { err = errors.Join(err, closeAll(all)) }()
	if err != nil {
		return nil, err
	}
	found := samples{}
	warmUp := rounds / 20 // not counted: fills connections, heaps and caches
	for round := range warmUp + rounds {
		keep := found
		if round < warmUp {
			keep = samples{}
		}
		if err := runRound(ctx, all, knownLaunchers+len(workloads())*round, keep); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// startCandidates connects each candidate to a runtime with a list of known launchers.
func startCandidates(ctx context.Context) (all []*candidate, err error) {
	for _, name := range candidates() {
		c, err := startCandidate(ctx, name, launchers(knownLaunchers))
		if err != nil {
			return all, err
		}
		all = append(all, c)
		if _, _, err := c.connect(ctx); err != nil {
			return all, err
		}
	}
	return all, nil
}

func launchers(n int) []member {
	all := make([]member, n)
	for i := range all {
		all[i] = launcher(i)
	}
	return all
}

func closeAll(all []*candidate) error {
	var errs []error
	for _, c := range all {
		errs = append(errs, c.close())
	}
	return errors.Join(errs...)
}

// runRound calls each candidate once for each workload. It removes the pods after all calls, so
// that a plugin's background work does not always disturb the same candidate.
func runRound(ctx context.Context, all []*candidate, number int, keep samples) error {
	var requests []request
	for _, c := range all {
		for i, w := range workloads() {
			requests = append(requests, request{c, w.name, w.container(number + i)})
		}
	}
	rand.Shuffle(len(requests), func(i, j int) {
		requests[i], requests[j] = requests[j], requests[i]
	})
	for _, a := range requests {
		took, err := a.measure(ctx)
		if err != nil {
			return err
		}
		keep.add(cell(a.name, a.workload), took)
	}
	for _, a := range requests {
		if err := a.remove(ctx, a.member); err != nil {
			return err
		}
	}
	return nil
}

type request struct {
	*candidate
	workload string
	member   member
}

// measure calls the plugin and checks its answer.
func (a request) measure(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	adjust, err := a.create(ctx, a.member)
	took := time.Since(began)
	if err != nil {
		return 0, fmt.Errorf("plugin %s, %s: %w", a.name, a.workload, err)
	}
	limits := len(adjust.GetRlimits())
	want := 0
	if a.name != empty && a.workload == workloads()[1].name {
		want = 1
	}
	if limits != want {
		return 0, fmt.Errorf("plugin %s set %d limits for a %s, want %d; its log: %s", a.name,
			limits, a.workload, want, a.log())
	}
	return took, nil
}
