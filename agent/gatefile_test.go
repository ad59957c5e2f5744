package agent

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/lifecycle/gate"
	"github.com/mooring-vm/mooring/lifecycle/lifecycletest"
)

func gatePolicy(mode policy.Mode) *policy.Policy {
	p := &policy.Policy{Mode: mode}
	p.Lifecycle.Libvirt = &policy.Libvirt{RequireOwner: []string{"vm-*"}}
	return p
}

// The state follows the policy in force, and its time each write with names.
func TestGateFile(t *testing.T) { synctest.Test(t, testGateFile) }

func testGateFile(t *testing.T) {
	current := &policy.Policy{Mode: policy.Enforce}
	g := &gateFile{
		path:  filepath.Join(t.TempDir(), gate.StateName),
		clock: lifecycletest.NewClock(), logger: discard,
		policy: func() *policy.Policy { return current },
		known:  func() bool { return true },
	}
	owners := []gate.Owner{{Domain: "vm-1"}}
	write := func(required, observed, owned int) (s gate.State) {
		t.Helper()
		g.write(owners)
		s, err := gate.ReadState(g.path)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.RequireOwner) != required || len(s.ObserveOwner) != observed ||
			len(s.Owners) != owned {
			t.Errorf("state %+v, want %d, %d, %d", s, required, observed, owned)
		}
		return s
	}
	write(0, 0, 0)
	if err := os.Remove(g.path); err != nil {
		t.Fatal(err)
	}
	g.write(owners)
	if _, err := os.Stat(g.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a second state without names: %v", err)
	}
	<-time.After(gatePeriod)
	nameless := write(0, 0, 0)
	if gatePeriod >= gate.MaxAge {
		t.Error("a state without names gets too old")
	}
	<-time.After(time.Second)
	current = gatePolicy(policy.Enforce) // also a NodePolicy that comes after the agent's start
	enforced := write(1, 0, 1)
	if enforced.Written <= nameless.Written {
		t.Errorf("in enforce mode: %+v after %+v", enforced, nameless)
	}
	current = gatePolicy(policy.Observe)
	observed := write(0, 1, 1)
	<-time.After(time.Second)
	if s := write(0, 1, 1); s.Written == observed.Written {
		t.Errorf("the state is not fresh: %+v", s)
	}
	current = &policy.Policy{Mode: policy.Enforce}
	write(0, 0, 0)
}

// After a failed write the next one replaces the state again.
func TestGateFileRecovers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "root")
	g := &gateFile{path: filepath.Join(dir, gate.StateName), clock: lifecycletest.NewClock(),
		logger: discard, policy: func() *policy.Policy { return gatePolicy(policy.Observe) },
		known: func() bool { return true }}
	g.write(nil)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	g.write(nil)
	if _, err := gate.ReadState(g.path); err != nil {
		t.Error(err)
	}
}

// Before the NodePolicies are known, the agent writes no state without names. It would open the
// gate for the names of a NodePolicy.
func TestGateFileBeforeTheNodePolicies(t *testing.T) {
	known, current := false, &policy.Policy{Mode: policy.Enforce}
	g := &gateFile{path: filepath.Join(t.TempDir(), gate.StateName),
		clock: lifecycletest.NewClock(), logger: discard,
		policy: func() *policy.Policy { return current }, known: func() bool { return known }}
	expect := func(step string, names int) {
		t.Helper()
		g.write(nil)
		s, err := gate.ReadState(g.path)
		if names < 0 && !errors.Is(err, os.ErrNotExist) || names >= 0 && err != nil ||
			len(s.RequireOwner) != max(names, 0) {
			t.Errorf("%s: state %+v, %v", step, s, err)
		}
	}
	expect("unknown", -1)
	current = gatePolicy(policy.Enforce)
	expect("names of the policy file", 1)
	current = gatePolicy(policy.Observe)
	expect("unknown, with an earlier state", 1)
	known = true
	expect("known", 0)
}
