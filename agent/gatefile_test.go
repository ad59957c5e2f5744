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

// The state follows the mode, and its time each write with names.
func TestGateFile(t *testing.T) { synctest.Test(t, testGateFile) }

func testGateFile(t *testing.T) {
	current := gatePolicy(policy.Observe)
	g := &gateFile{
		path:  filepath.Join(t.TempDir(), gate.StateName),
		clock: lifecycletest.NewClock(), logger: discard,
		policy: func() *policy.Policy { return current },
	}
	owners := []gate.Owner{{Domain: "vm-1"}}
	write := func() gate.State {
		g.write(owners)
		s, err := gate.ReadState(g.path)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	observed := write()
	if len(observed.RequireOwner)+len(observed.Owners) != 0 {
		t.Errorf("in observe mode: %+v", observed)
	}
	if err := os.Remove(g.path); err != nil {
		t.Fatal(err)
	}
	g.write(owners)
	if _, err := os.Stat(g.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a second state without names: %v", err)
	}
	<-time.After(gatePeriod)
	if write(); gatePeriod >= gate.MaxAge {
		t.Error("a state without names gets too old")
	}
	current = gatePolicy(policy.Enforce) // also a NodePolicy that comes after the agent's start
	enforced := write()
	if len(enforced.RequireOwner) != 1 || len(enforced.Owners) != 1 ||
		enforced.Written <= observed.Written {
		t.Errorf("in enforce mode: %+v", enforced)
	}
	current = gatePolicy(policy.Observe)
	if s := write(); len(s.RequireOwner) != 0 {
		t.Errorf("after the return to observe mode: %+v", s)
	}
}

// After a failed write the next one replaces the state again.
func TestGateFileRecovers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "root")
	g := &gateFile{path: filepath.Join(dir, gate.StateName), clock: lifecycletest.NewClock(),
		logger: discard, policy: func() *policy.Policy { return gatePolicy(policy.Observe) }}
	g.write(nil)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	g.write(nil)
	if _, err := gate.ReadState(g.path); err != nil {
		t.Error(err)
	}
}
