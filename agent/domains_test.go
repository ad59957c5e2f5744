package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/agent/libvirt"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// A record predates a process that started after the agent had read the record's present content.
func TestRecordPredatesProcess(t *testing.T) {
	clock := &setClock{}
	d := &domains{records: libvirt.Records{Dir: t.TempDir()}, clock: clock}
	one := tie.Domain{Name: "one", UUID: "5530f9f3-5627-4dec-933e-74ce04c51e18", PID: 7}
	file := filepath.Join(d.records.Dir, "one.xml")
	replace := func() {
		record := fmt.Sprintf("<domstatus pid='%d'><domain><name>%s</name><uuid>%s</uuid></domain>"+
			"</domstatus>", one.PID, one.Name, one.UUID)
		if err := os.WriteFile(file+".new", []byte(record), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	readAt := func(seconds int) {
		clock.now = host.Boottime(seconds) * host.Boottime(time.Second)
		if running, unreadable, err := d.Running(); len(running) != 1 || running[0] != one ||
			unreadable != nil || err != nil {
			t.Fatalf("%+v, %+v, %v, want %+v", running, unreadable, err, one)
		}
	}
	startedAt := func(seconds int) host.Process {
		return host.ProcessAt(one.PID, uint64(seconds)*100)
	}
	expect := func(step string, domain tie.Domain, seconds int, want bool) {
		t.Helper()
		if got := d.Predates(domain, startedAt(seconds)); got != want {
			t.Errorf("%s: predates a process from second %d: %t, want %t", step, seconds, got, want)
		}
	}
	expect("before the first read", one, 99, false)
	replace()
	readAt(10)
	readAt(20)
	expect("unchanged", one, 9, false)
	expect("unchanged", one, 10, false)
	expect("unchanged", one, 11, true)
	expect("another pid", tie.Domain{Name: one.Name, UUID: one.UUID, PID: 8}, 11, false)
	replace()
	readAt(30)
	expect("replaced", one, 25, false)
	expect("replaced", one, 31, true)
	if err := os.Chtimes(file, time.Time{}, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	readAt(40)
	expect("dated back", one, 35, false)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.Running(); err != nil {
		t.Fatal(err)
	}
	expect("removed", one, 99, false)
}
