package coordinator_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/podapi"
	shimagent "github.com/mooring-vm/mooring/shim/agent"
	"github.com/mooring-vm/mooring/shim/resize"
)

// agent is a fake agent. It allows every size, unless a test says otherwise.
type agent struct {
	stopSender

	mu            sync.Mutex
	away          bool
	desired       podapi.Desired
	reports       []podapi.Report
	dryRunReports []podapi.Report // answers to dry runs
	changes       map[chan struct{}]bool

	onReport func(podapi.Report) // receives each report except answers to dry runs; may be nil

	migrationsHeld, leased bool
	leaseCount             int    // granted leases, renewals included
	lock                   uint64 // memory-lock limit of QEMU; 0: unlimited
	start                  string // of the VM process
	raised                 []uint64

	floor, ceiling     uint64 // bounds of lock; a ceiling of 0 is none
	limit, requirement uint64 // memory.max of the container, and its memory requirement
}

func (a *agent) errIfAway() error {
	if a.away {
		return resize.ErrAgent
	}
	return nil
}

func (a *agent) Desired(context.Context) (podapi.Desired, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.desired, a.errIfAway()
}

func (a *agent) Report(_ context.Context, r podapi.Report) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	text, err := json.Marshal(r)
	if len(text) > podapi.MaxReport {
		err = fmt.Errorf("%d bytes: want at most %d", len(text), podapi.MaxReport)
	}
	if err := errors.Join(a.errIfAway(), r.Check(), err); err != nil {
		return err
	}
	if r.DryRun {
		a.dryRunReports = append(a.dryRunReports, r)
		return nil
	}
	if a.onReport != nil {
		a.onReport(r)
	}
	a.reports = append(a.reports, r)
	return nil
}

func (a *agent) Limits(context.Context) (resize.Limits, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if limit := uint64(a.desired.Limits.Memory); limit > a.limit || limit >= a.requirement {
		a.limit = limit
	}
	limits := resize.Limits{PodMax: a.limit, ContainerMax: a.limit, Lock: resize.NoLimit,
		Floor: a.floor, Available: resize.NoLimit, Start: a.start}
	if a.lock > 0 {
		limits.Lock = a.lock
	}
	return limits, a.errIfAway()
}

func (a *agent) RaiseLock(_ context.Context, bytes uint64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.away:
		return resize.ErrAgent
	case a.ceiling > 0 && bytes > a.ceiling:
		return policyError("memory lock: %d is more than %d", bytes, a.ceiling)
	}
	a.lock, a.raised = max(a.lock, bytes), append(a.raised, bytes)
	return nil
}

func (a *agent) LowerLock(_ context.Context, bytes uint64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.away:
		return resize.ErrAgent
	case bytes < a.floor:
		return policyError("memory lock: %d is less than the launcher's limit of %d",
			bytes, a.floor)
	}
	if a.lock == 0 || bytes < a.lock {
		a.lock = bytes
	}
	return nil
}

func policyError(format string, args ...any) error {
	return &shimagent.RefusedError{Code: podapi.CodeRefused, Message: fmt.Sprintf(format, args...)}
}

func (a *agent) RequireMemory(_ context.Context, bytes uint64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.away {
		a.requirement = bytes
	}
	return a.errIfAway()
}

// memoryRequirement returns the last requirement.
func (a *agent) memoryRequirement() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.requirement
}

// Hold returns an error during a lease, as Lease does during a hold.
func (a *agent) Hold(_ context.Context, d time.Duration, _ uint64) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if d > 0 && a.leased {
		return resize.ErrMigrating
	}
	a.migrationsHeld = d > 0
	return a.errIfAway()
}

func (a *agent) Lease(_ context.Context, d time.Duration, _ string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.away:
		return resize.ErrAgent
	case d > 0 && a.migrationsHeld:
		return errors.New("the VM is being resized")
	case d > 0:
		a.leaseCount++
	}
	a.leased = d > 0
	return nil
}

// hasLease reports whether a lease exists, and how many the agent has granted.
func (a *agent) hasLease() (leased bool, taken int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.leased, a.leaseCount
}

func (a *agent) Changed(ctx context.Context) (<-chan struct{}, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := make(chan struct{}, 1)
	if a.changes == nil {
		a.changes = map[chan struct{}]bool{}
	}
	a.changes[c] = true
	context.AfterFunc(ctx, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.changes, c)
		close(c)
	})
	return c, nil
}

// setDesired changes the desired state, notifies the subscribers and returns the generation.
func (a *agent) setDesired(change func(*podapi.Desired)) uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	change(&a.desired)
	a.desired.Generation++
	a.notify()
	return a.desired.Generation
}

// requestDryRun requests a dry run.
func (a *agent) requestDryRun(generation uint64, size api.Size) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.desired.DryRun = &podapi.DryRun{Generation: generation, Size: size}
	a.notify()
}

func (a *agent) notify() {
	for c := range a.changes {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// lastReport returns the last report, which must have this state.
func (a *agent) lastReport(t *testing.T, state podapi.State) podapi.Report {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.reports) == 0 || a.reports[len(a.reports)-1].State != state {
		t.Fatalf("reports %+v, want the last to be %s", a.reports, state)
	}
	return a.reports[len(a.reports)-1]
}

// allReports returns all reports except answers to dry runs.
func (a *agent) allReports() []podapi.Report {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.reports)
}

// dryRunAnswers returns the answers to dry runs.
func (a *agent) dryRunAnswers() []podapi.Report {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.dryRunReports)
}

// reportedStates returns the reported states, successive ones only once.
func (a *agent) reportedStates() []podapi.State {
	var all []podapi.State
	for _, r := range a.allReports() {
		all = append(all, r.State)
	}
	return slices.Compact(all)
}

func (a *agent) generation() uint64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.desired.Generation
}
