package libvirt

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/agent/libvirt/libvirttest"
)

// realDomain has no disk: it runs the firmware only.
const realDomain = `<domain type='qemu'>
  <name>vm-1</name>
  <uuid>5530f9f3-5627-4dec-933e-74ce04c51e18</uuid>
  <memory unit='MiB'>16</memory>
  <os><type arch='x86_64' machine='pc'>hvm</type></os>
  <features><acpi/></features>
  <devices><controller type='usb' model='none'/><memballoon model='none'/></devices>
</domain>
`

// ownLibvirt is the libvirt of a test. The file vm.xml in its home is realDomain.
type ownLibvirt struct {
	Records
	Daemon
	*libvirttest.Libvirt
}

// startLibvirt runs a libvirtd until the test ends.
func startLibvirt(t *testing.T) ownLibvirt {
	t.Helper()
	return startLibvirtWith(t, func(string) {})
}

// startLibvirtWith is startLibvirt with files that install writes below its home.
func startLibvirtWith(t *testing.T, install func(home string)) ownLibvirt {
	t.Helper()
	return newOwnLibvirt(t, libvirttest.Start(t, install))
}

// startLibvirtIn is startLibvirtWith in an empty directory.
func startLibvirtIn(t *testing.T, home string, install func(home string)) ownLibvirt {
	t.Helper()
	return newOwnLibvirt(t, libvirttest.StartIn(t, home, install))
}

func newOwnLibvirt(t *testing.T, l *libvirttest.Libvirt) ownLibvirt {
	t.Helper()
	write(t, l.Home, "vm.xml", []byte(realDomain))
	return ownLibvirt{Records{Dir: l.Records()}, Daemon{l.SocketPath()}, l}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); !is(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("never happened: %s", what)
		}
	}
}

// argsOf returns the arguments of a process, or nil after its end.
func argsOf(pid int) []string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || len(data) == 0 {
		return nil
	}
	return strings.Split(string(data), "\x00")
}
