package gate

import (
	"errors"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// An allowed start does not wait, and an unknown process is no active launcher.
func TestAllowedStartIsFast(t *testing.T) {
	f := newFixture(t, fresh(nil))
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		err := f.Call(strings.Fields(vm3Call), strings.NewReader(vm3))
		if took := time.Since(began); err != nil || took != 0 {
			t.Errorf("%v after %s", err, took)
		}
	})
	f.Alive = func(int, uint64) (bool, error) { return false, errors.New("too many open files") }
	f.expect(t, vm3Call, vm3, "process 7 is unknown: too many open files")
}

// AppArmor may deny the hook its configuration. The probe then names it.
func TestProbeWithoutAConfiguration(t *testing.T) {
	f := newFixture(t, fresh(nil))
	writeJSON(t, f.Config, Config{Version + 1, f.state, nil})
	f.expect(t, Probe+" prepare begin -", "", "version 2: want 1; install the hook again")
	if err := os.Remove(f.Config); err != nil {
		t.Fatal(err)
	}
	f.expect(t, Probe+" prepare begin -", "", "cannot work: open "+f.Config)
}

// libvirt reads back the answer to migrate and restore as the domain's definition, and both precede
// prepare. So the hook allows them, and prepare decides.
func TestMigrationAndRestore(t *testing.T) {
	for name, c := range map[string]struct {
		state   *State
		refusal string
	}{
		"active owner": {fresh(nil), ""},
		"no owner":     {fresh(func(s *State) { s.Owners = nil }), "no launcher on this node"},
	} {
		for _, first := range []string{"migrate", "restore"} {
			t.Run(name+"/"+first, func(t *testing.T) {
				f := newFixture(t, c.state)
				f.expect(t, "vm-3 "+first+" begin -", vm3, "")
				f.expect(t, "vm-3 prepare begin -", vm3, c.refusal)
				f.expect(t, "vm-3 start begin -", vm3, c.refusal)
				for _, later := range []string{"started begin", "stopped end", "release end"} {
					f.expect(t, "vm-3 "+later+" -", vm3, "")
				}
			})
		}
	}
}
