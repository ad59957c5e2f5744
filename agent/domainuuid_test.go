package agent

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/mooring-vm/mooring/agent/libvirt"
	"github.com/mooring-vm/mooring/lifecycle/host"
)

// A record becomes unreadable, and libvirt does not answer. The agent keeps the UUID while libvirt
// has a record of this name.
func TestUUIDOfAnUnreadableRecord(t *testing.T) {
	const uuid = "5530f9f3-5627-4dec-933e-74ce04c51e18"
	dir := t.TempDir()
	d := &domains{
		records: libvirt.Records{Dir: dir}, clock: host.LinuxClock{},
		daemon: libvirt.Daemon{Socket: filepath.Join(dir, "no-socket")},
		logger: slog.New(slog.DiscardHandler),
	}
	file := filepath.Join(dir, "one.xml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(step, want string) {
		t.Helper()
		running, unreadable, err := d.Running()
		if err != nil || len(running) > 0 || len(unreadable) != 1 || unreadable[0].Name != "one" ||
			unreadable[0].UUID != want {
			t.Errorf("%s: %+v, %+v, %v, want domain one unreadable with UUID %q",
				step, running, unreadable, err, want)
		}
	}
	write("broken")
	expect("never read", "")
	write(fmt.Sprintf("<domstatus pid='7'><domain><name>one</name><uuid>%s</uuid></domain>"+
		"</domstatus>", uuid))
	running, unreadable, err := d.Running()
	if len(running) != 1 || unreadable != nil || err != nil {
		t.Fatalf("%+v, %+v, %v, want domain one", running, unreadable, err)
	}
	write("broken")
	expect("broken", uuid)
	expect("still broken", uuid)
	hidden := dir + ".hidden"
	if err := os.Rename(dir, hidden); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.Running(); err != nil {
		t.Errorf("without a directory: %v, want no error", err)
	}
	if err := os.Rename(hidden, dir); err != nil {
		t.Fatal(err)
	}
	expect("no record in between", "")
}
