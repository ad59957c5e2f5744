//go:build cgo && libvirt_dlopen

package libvirttest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template"
	"time"

	"libvirt.org/go/libvirt"

	"github.com/mooring-vm/mooring/shim/virt/virttest/guest"
)

// Name is the name of every test domain.
const Name = "vm-1"

// VM holds the settings in which test domains differ.
type VM struct {
	Kernel, Initrd, Arguments string
	Console                   string
	HeartbeatSocket           string // socket of the second serial port

	Memory     int  // MiB; 0: 160
	NoHeadroom bool // no maxMemory, no spare vCPUs and no virtio-mem device

	// KubeVirt: headroom as KubeVirt defines it. maxMemory has no slots, and there is no device.
	KubeVirt bool
}

var vmXML = template.Must(template.New("vm").Parse(`<domain type='qemu'>
  <name>` + Name + `</name>
  {{if not .NoHeadroom}}
    <maxMemory {{if not .KubeVirt}}slots='3'{{end}} unit='MiB'>1024</maxMemory>
  {{end}}
  <memory unit='MiB'>{{.Memory}}</memory>
  {{if .NoHeadroom}}<vcpu>1</vcpu>{{else}}<vcpu placement='static' current='1'>16</vcpu>{{end}}
  <os>
    <type arch='x86_64' machine='q35'>hvm</type>
    {{with .Kernel}}
      <kernel>{{.}}</kernel><initrd>{{$.Initrd}}</initrd><cmdline>{{$.Arguments}}</cmdline>
    {{end}}
  </os>
  <features><acpi/><apic/><smm state='off'/></features>
  {{if not .NoHeadroom}}
    <cpu><numa><cell id='0' cpus='0-15' memory='{{.Memory}}' unit='MiB'/></numa></cpu>
  {{end}}
  <on_poweroff>destroy</on_poweroff>
  <on_crash>destroy</on_crash>
  <devices>
    <controller type='usb' model='none'/>
    {{with .Console}}<serial type='file'><source path='{{.}}'/></serial>{{end}}
    {{with .HeartbeatSocket}}<serial type='unix'><source mode='bind' path='{{.}}'/></serial>{{end}}
    <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>
    <memballoon model='virtio'/>
    {{if not (or .NoHeadroom .KubeVirt)}}<memory model='virtio-mem'><target>
      <size unit='MiB'>256</size><node>0</node>
      <block unit='MiB'>2</block><requested unit='KiB'>0</requested>
    </target></memory>{{end}}
  </devices>
</domain>`))

// XML returns the VM's definition.
func (v VM) XML(t testing.TB) string {
	t.Helper()
	if v.Memory == 0 {
		v.Memory = 160
	}
	var out strings.Builder
	if err := vmXML.Execute(&out, v); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// LinuxVM returns a VM with the Linux guest of package guest, and takes its options.
func (d *Daemon) LinuxVM(t testing.TB, options ...string) VM {
	t.Helper()
	kernel, err := guest.Kernel()
	if err != nil {
		Require(t, err.Error())
	}
	g, err := guest.Make(t.Context(), kernel, d.Dir)
	if err != nil {
		t.Fatal(err)
	}
	// libvirtd may run in another root file system, which always includes this folder.
	copied := filepath.Join(d.Dir, "vmlinuz")
	data, err := os.ReadFile(g.Kernel)
	if err == nil {
		err = os.WriteFile(copied, data, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	v := VM{
		Kernel: copied, Initrd: g.Initramfs, Console: d.consoleFile(),
		Arguments: strings.Join(append([]string{guest.Arguments}, options...), " "),
	}
	if slices.Contains(options, "guest.heartbeat") {
		v.HeartbeatSocket = d.heartbeatSocket()
	}
	return v
}

// BootDefined defines a domain and starts it.
func (d *Daemon) BootDefined(t testing.TB, xml string) {
	t.Helper()
	d.WithConnect(t, func(conn *libvirt.Connect) error {
		handle, err := conn.DomainDefineXML(xml)
		if err != nil {
			return err
		}
		return handle.Create()
	})
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("console: %s", d.Console(t))
		}
	})
}

// CreateTransient starts a domain without a persistent definition.
func (d *Daemon) CreateTransient(t testing.TB, xml string) {
	t.Helper()
	d.WithConnect(t, func(conn *libvirt.Connect) error {
		_, err := conn.DomainCreateXML(xml, 0)
		return err
	})
}

func (d *Daemon) consoleFile() string { return filepath.Join(d.Dir, "console") }

// Console returns the guest's console output so far.
func (d *Daemon) Console(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(d.consoleFile())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(text)
}

// AwaitConsole waits until the guest has printed the text on its console.
func (d *Daemon) AwaitConsole(t testing.TB, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(d.Console(t), text) {
		if ctx.Err() != nil {
			t.Fatalf("the guest never printed %q: %q", text, d.Console(t))
		}
		<-tick.C
	}
}

// GuestMemory returns the total memory that the guest last reported, in bytes.
func (d *Daemon) GuestMemory(t testing.TB) (bytes int64) {
	t.Helper()
	for line := range strings.Lines(d.Console(t)) {
		_, figure, ok := strings.Cut(line, " memory=")
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(figure), "kB"), 10, 64)
		if ok && err == nil {
			bytes = kib << 10
		}
	}
	return bytes
}
