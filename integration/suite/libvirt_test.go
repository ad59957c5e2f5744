package suite

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/integration/node"
	"github.com/mooring-vm/mooring/memlock/domain"
)

// domainXML returns the XML of a small VM with the given pieces.
func domainXML(name, pieces, devices string) string {
	return fmt.Sprintf(`<domain type='qemu'><name>%s</name>%s<os><type arch='x86_64' machine='q35'>hvm</type></os>
		<features><acpi/><ioapic driver='qemu'/></features><vcpu>1</vcpu>
		<devices><emulator>/usr/bin/qemu-system-x86_64</emulator>%s<memballoon model='none'/></devices></domain>`, name, pieces, devices)
}

func hostdev(address string) string {
	part := strings.FieldsFunc(address, func(r rune) bool { return r == ':' || r == '.' })
	return fmt.Sprintf(`<hostdev mode='subsystem' type='pci' managed='no'><source>
		<address domain='0x%s' bus='0x%s' slot='0x%s' function='0x%s'/></source></hostdev>`, part[0], part[1], part[2], part[3])
}

func TestCoreLibvirtSetsTheComputedLimit(t *testing.T) {
	claim(t, "The limit computed from a domain XML equals libvirt's, with VFIO devices")
	f := setUp(t)
	outcome(t, "libvirt "+f.output(t, "virsh", "--version"))
	f.bindVFIO(t)
	const memory = `<memory unit='MiB'>128</memory>`
	one, both := hostdev(vfioDevices[0]), hostdev(vfioDevices[0])+hostdev(vfioDevices[1])
	const virtioMem = `<memory model='virtio-mem'><target><size ` +
		`unit='MiB'>512</size><node>0</node><block unit='MiB'>2</block><requested ` +
		`unit='MiB'>0</requested></target></memory>`
	for name, c := range map[string]struct{ pieces, devices string }{
		"nothing":    {memory, ""},
		"hard-limit": {memory + `<memtune><hard_limit unit='MB'>3000</hard_limit></memtune>`, one},
		"locked":     {memory + `<memoryBacking><locked/></memoryBacking>`, ""},
		"device":     {memory, one},
		"devices":    {`<memory unit='KB'>131073</memory>`, both},
		"viommu": {memory,
			both + `<iommu model='intel'><driver intremap='on' caching_mode='on'/></iommu>`},
		"virtio-mem": {
			memory +
				`<maxMemory slots='1' unit='GiB'>1</maxMemory><cpu><numa><cell id='0' cpus='0' ` +
				`memory='128' unit='MiB'/></numa></cpu>`,
			one + virtioMem},
	} {
		t.Run(name, func(t *testing.T) {
			f.compareWithLibvirt(t, name, domainXML(name, c.pieces, c.devices))
		})
	}
}

// compareWithLibvirt starts a domain and compares its limit with the computed limit.
func (f fixture) compareWithLibvirt(t *testing.T, name, text string) {
	t.Helper()
	def, err := domain.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	computed, err := def.Limit()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	create := node.Command{
		Args:  []string{"virsh", "create", "--paused", "/dev/stdin"},
		Stdin: strings.NewReader(text), Stdout: io.Discard, Stderr: &stderr,
	}
	if err := f.Run(t.Context(), create); err != nil {
		t.Fatalf("virsh create: %v: %s", err, &stderr)
	}
	t.Cleanup(func() {
		if _, err := f.Output(context.Background(), "virsh", "destroy", name); err != nil {
			t.Error(err)
		}
	})
	pid := f.output(t, "cat", "/run/libvirt/qemu/"+name+".pid")
	want := both(computed.Bytes)
	switch {
	case computed.Unlimited:
		want = "unlimited unlimited"
	case !computed.Required: // inherited
		want = f.memlockOf(t, f.output(t, "pidof", "libvirtd"))
	}
	if got := f.memlockOf(t, pid); got != want {
		t.Errorf("QEMU has %s, want %s: %+v", got, want, computed)
	}
}

// memlockOf returns RLIMIT_MEMLOCK of a process of the node, in the form of memlock.
func (f fixture) memlockOf(t *testing.T, pid string) string {
	t.Helper()
	return f.output(t, "prlimit", "--memlock", "--output=SOFT,HARD", "--noheadings", "--raw",
		"--pid="+pid)
}
