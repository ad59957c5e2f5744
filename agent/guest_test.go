package agent

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/agent/libvirt/libvirttest"
	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/shim/virt/virttest/guest"
)

// guestDomain has a Linux guest. Its parts are kernel, initramfs, kernel arguments and console.
const guestDomain = `<domain type='qemu'>
  <name>vm-1</name>
  <memory unit='MiB'>160</memory>
  <os>
    <type arch='x86_64' machine='q35'>hvm</type>
    <kernel>%s</kernel><initrd>%s</initrd><cmdline>%s</cmdline>
  </os>
  <features><acpi/><apic/><smm state='off'/></features>
  <on_poweroff>destroy</on_poweroff>
  <devices>
    <controller type='usb' model='none'/>
    <serial type='file'><source path='%s'/></serial>
  </devices>
</domain>
`

// nodeGuest is a Linux guest in a domain of the node's libvirt, tied to a launcher.
type nodeGuest struct {
	*running
	*libvirttest.Libvirt
	launched
	console string // file
}

// startGuest starts an agent, a launcher that declares the domain, and the domain. It skips the
// test on the throw-away node: there guests are emulated twice and take minutes to boot.
func startGuest(t *testing.T, gracePeriod, option string) *nodeGuest {
	t.Helper()
	kernel, err := guest.Kernel()
	if err == nil {
		_, err = exec.LookPath("go")
	}
	if err != nil {
		t.Skipf("no guest: %v", err)
	}
	l := libvirttest.Start(t, func(string) {})
	files, err := guest.Make(t.Context(), kernel, l.Home)
	if err != nil {
		t.Fatal(err)
	}
	config := testConfig(t)
	policy := fmt.Sprintf("mode: enforce\nlifecycle: {gracePeriod: %s, "+
		"libvirt: {records: %s, socket: %s}}\n", gracePeriod, l.Records(), l.SocketPath())
	policy = strings.Replace(testPolicy, "mode: enforce\n", policy, 1)
	policy = strings.Replace(policy, "namespaces: [vms]\n",
		"namespaces: [vms]\n  domains: [vm-1]\n", 1)
	if err := os.WriteFile(config.Policy, []byte(policy), 0o600); err != nil {
		t.Fatal(err)
	}
	a, runtime := startTracking(t, config)
	g := &nodeGuest{running: a, Libvirt: l, console: filepath.Join(l.Home, "console"),
		launched: launchWith(t, config, runtime, "vm", map[string]string{api.DomainKey: "vm-1"})}
	domain := filepath.Join(l.Home, "guest.xml")
	text := fmt.Sprintf(guestDomain, files.Kernel, files.Initramfs,
		guest.Arguments+" "+option, g.console)
	if err := os.WriteFile(domain, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	l.Must(t, "create", domain)
	t.Cleanup(func() { _ = l.Virsh(t, "destroy", "vm-1") })
	a.awaitPhase(t, "vm", agentapi.PhaseActive, 1)
	return g
}

// output is the output of the guest so far.
func (g *nodeGuest) output(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(g.console)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// awaitOutput waits minutes for an output of the guest, which is emulated.
func (g *nodeGuest) awaitOutput(t *testing.T, text string) {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); !strings.Contains(g.output(t), text); {
		if time.Now().After(end) {
			t.Fatalf("no %q on the console:\n%s", text, g.output(t))
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// The launcher of a booting guest ends. The guest loses the first request for its shutdown, and
// powers off at a later one.
func TestBootingGuestPowersOff(t *testing.T) {
	g := startGuest(t, "10m", "")
	if err := g.process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	g.awaitEvent(t, agentapi.ReasonVMShutdown, "")
	if text := g.output(t); strings.Contains(text, "GUEST") {
		t.Errorf("the guest had booted before the request:\n%s", text)
	}
	g.awaitOutput(t, "GUEST power off")
	g.awaitPhase(t, "vm", agentapi.PhaseDone, 0)
	if text := g.log.String(); strings.Contains(text, string(agentapi.ReasonVMTerminated)) {
		t.Errorf("the guest was terminated:\n%s", text)
	}
}

// A guest ignores the power button. The agent ends its process after the grace period.
func TestGuestIgnoresThePowerButton(t *testing.T) {
	g := startGuest(t, "20s", "guest.ignore-power-button")
	g.awaitOutput(t, "GUEST cpus=")
	began := time.Now()
	if err := g.process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	g.awaitOutput(t, "GUEST power button ignored")
	g.awaitEvent(t, agentapi.ReasonVMTerminated, "")
	if took := time.Since(began); took < 20*time.Second {
		t.Errorf("the guest was terminated after %s, want its grace period of 20s", took)
	}
	g.awaitPhase(t, "vm", agentapi.PhaseDone, 0)
}
