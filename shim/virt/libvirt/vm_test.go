//go:build cgo && libvirt_dlopen

package libvirt

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/template"
	"time"

	"libvirt.org/go/libvirt"

	"github.com/mooring-vm/mooring/shim/virt"
	"github.com/mooring-vm/mooring/shim/virt/virttest/guest"
)

// quick is a pause between attempts that tests can wait for.
const quick = 200 * time.Millisecond

// vm is what the domains of the tests differ in.
type vm struct {
	Kernel, Initrd, Arguments string
	Console                   string
}

var vmXML = template.Must(template.New("vm").Parse(`<domain type='qemu'>
  <name>vm-1</name>
  <maxMemory slots='3' unit='MiB'>1024</maxMemory>
  <memory unit='MiB'>160</memory>
  <vcpu placement='static' current='1'>16</vcpu>
  <os>
    <type arch='x86_64' machine='q35'>hvm</type>
    {{with .Kernel}}<kernel>{{.}}</kernel><initrd>{{$.Initrd}}</initrd><cmdline>{{$.Arguments}}</cmdline>{{end}}
  </os>
  <features><acpi/><apic/><smm state='off'/></features>
  <cpu><numa><cell id='0' cpus='0-15' memory='160' unit='MiB'/></numa></cpu>
  <on_poweroff>destroy</on_poweroff>
  <on_crash>destroy</on_crash>
  <devices>
    <controller type='usb' model='none'/>
    {{with .Console}}<serial type='file'><source path='{{.}}'/></serial>{{end}}
    <channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>
    <memballoon model='virtio'/>
    <memory model='virtio-mem'><target>
      <size unit='MiB'>256</size><node>0</node><block unit='MiB'>2</block><requested unit='KiB'>0</requested>
    </target></memory>
  </devices>
</domain>`))

// linux is a VM whose guest answers.
func linux(t *testing.T, d *daemon, options ...string) vm {
	t.Helper()
	kernel, err := guest.Kernel()
	if err != nil {
		need(t, err.Error())
	}
	g, err := guest.Make(t.Context(), kernel, d.dir)
	if err != nil {
		t.Fatal(err)
	}
	// libvirtd may see another root, but always this folder.
	copied := filepath.Join(d.dir, "vmlinuz")
	data, err := os.ReadFile(g.Kernel)
	must(t, err, os.WriteFile(copied, data, 0o644))
	return vm{
		Kernel: copied, Initrd: g.Initramfs, Console: filepath.Join(d.dir, "console"),
		Arguments: strings.Join(append([]string{guest.Arguments}, options...), " "),
	}
}

// boot defines a VM and starts it.
func (d *daemon) boot(t *testing.T, c virt.Connection, v vm) virt.Domain {
	t.Helper()
	d.raw(t, func(conn *libvirt.Connect) error {
		handle, err := conn.DomainDefineXML(v.xml(t))
		if err != nil {
			return err
		}
		return handle.Create()
	})
	t.Cleanup(func() {
		if console, err := os.ReadFile(v.Console); err == nil && t.Failed() {
			t.Logf("console: %s", console)
		}
	})
	return find(t, c, "vm-1")
}

// console waits until the guest has said something.
func (d *daemon) console(t *testing.T, text string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		said, err := os.ReadFile(filepath.Join(d.dir, "console"))
		if strings.Contains(string(said), text) {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("the guest never said %q: %q, %v", text, said, err)
		}
		<-tick.C
	}
}

// create starts a VM that has no definition but its own.
func (d *daemon) create(t *testing.T, c virt.Connection, v vm) virt.Domain {
	t.Helper()
	d.raw(t, func(conn *libvirt.Connect) error {
		_, err := conn.DomainCreateXML(v.xml(t), 0)
		return err
	})
	return find(t, c, "vm-1")
}

// raw does what the shim never does, with a connection of its own.
func (d *daemon) raw(t *testing.T, f func(*libvirt.Connect) error) {
	t.Helper()
	conn, err := libvirt.NewConnect(d.uri)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := f(conn); err != nil {
		t.Fatal(err)
	}
}

func (v vm) xml(t *testing.T) string {
	t.Helper()
	var out strings.Builder
	if err := vmXML.Execute(&out, v); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// open connects, and closes when the test ends.
func open(t *testing.T, uri string, o Options) virt.Connection {
	t.Helper()
	if err := StartEvents(); err != nil {
		need(t, err.Error())
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := Open(ctx, uri, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// unplugs reports whether this QEMU unplugs vCPUs without KVM: 10.0 and older do not.
func (d *daemon) unplugs(t *testing.T) (can bool) {
	t.Helper()
	d.raw(t, func(conn *libvirt.Connect) error {
		qemu, err := conn.GetVersion()
		libvirtd, libvirtErr := conn.GetLibVersion()
		t.Logf("libvirt %d, QEMU %d", libvirtd, qemu)
		can = qemu >= 11_000_000
		return errors.Join(err, libvirtErr)
	})
	return can
}
