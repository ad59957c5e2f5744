package libvirt

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"libvirt.org/go/libvirtxml"

	"github.com/mooring-vm/mooring/shim/virt"
)

// resized returns the XML that libvirt 9.0 wrote for a resized test domain.
func resized(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile("testdata/resized.xml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestDefinition(t *testing.T) {
	const mib = 1 << 20
	def, err := parseDefinition(resized(t))
	if err != nil {
		t.Fatal(err)
	}
	want := virt.State{
		Name: "vm-1", UUID: "5530f9f3-5627-4dec-933e-74ce04c51e18",
		VCPUs: virt.VCPUs{Plugged: 3, Boot: 1, Maximum: 16, Online: virt.Unknown},
		Memory: virt.Memory{
			Boot:      160 * mib,
			Maximum:   1024 * mib,
			Slots:     3,
			Cells:     1,
			Balloon:   352 * mib,
			Ballooned: true,
			Devices: []virt.MemoryDevice{
				{
					Alias:     "virtiomem0",
					Model:     virt.VirtioMem,
					Size:      256 * mib,
					Block:     2 * mib,
					Requested: 64 * mib,
					Current:   64 * mib,
				},
				{Alias: "dimm0", Model: virt.DIMM, Size: 128 * mib},
			},
		},
	}
	if diff := cmp.Diff(want, def.state()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if !def.agentConnected() {
		t.Error("the agent's channel is connected")
	}
}

func TestInvalidDefinition(t *testing.T) {
	for name, c := range map[string]struct{ old, now, want string }{
		"another document": {"<domain", "", "but have <name>"},
		"another unit": {
			"<memory unit='KiB'>",
			"<memory unit='MiB'>",
			`unit "MiB": want KiB`,
		},
		"a device's unit": {"<size unit='KiB'>", "<size unit='G'>", `unit "G": want KiB`},
		"a request's unit": {
			"<requested unit='KiB'>",
			"<requested unit='G'>",
			`unit "G": want KiB`,
		},
		"a current size's unit": {
			"<current unit='KiB'>",
			"<current unit='G'>",
			`unit "G": want KiB`,
		},
		"no memory": {
			"memory unit='KiB'>557056</memory",
			"else/",
			"no memory or no vcpu",
		},
		"a device without size": {"<size unit='KiB'>131072</size>", "", "no size"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseDefinition(strings.Replace(resized(t), c.old, c.now, 1))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want an error with %q", err, c.want)
			}
		})
	}
}

// A running domain's device is found in the stored definition, which has no aliases.
func TestCounterpart(t *testing.T) {
	live, err := parseDefinition(resized(t))
	if err != nil {
		t.Fatal(err)
	}
	defined, err := parseDefinition(
		strings.NewReplacer("<alias name='dimm0'/>", "", " base='0x100000000'", "").
			Replace(resized(t)),
	)
	if err != nil {
		t.Fatal(err)
	}
	device, err := live.device("dimm0")
	if err != nil {
		t.Fatal(err)
	}
	found, ok := defined.counterpart(device, live)
	if !ok || found.Alias != nil || found.Target.Size.Value != 131072 {
		t.Errorf("found %+v, %t, want the DIMM", found, ok)
	}
	larger := device
	larger.Target = &libvirtxml.DomainMemorydevTarget{
		Size: &libvirtxml.DomainMemorydevTargetSize{Value: 131073, Unit: "KiB"},
		Node: device.Target.Node,
	}
	if found, ok := defined.counterpart(larger, live); ok {
		t.Errorf("found %+v, want none: it has another size", found)
	}
	second := slotted(device, 1)
	found, ok = defined.counterpart(second, definition{})
	if !ok || found.Target.Size.Value != 131072 {
		t.Errorf("found %+v, %t, want the DIMM in the other slot", found, ok)
	}
	if found, ok := defined.counterpart(second, live); ok {
		t.Errorf("found %+v, want none: it belongs to another DIMM", found)
	}
}

func slotted(dimm libvirtxml.DomainMemorydev, slot uint) libvirtxml.DomainMemorydev {
	dimm.Address = &libvirtxml.DomainAddress{DIMM: &libvirtxml.DomainAddressDIMM{Slot: &slot}}
	return dimm
}

func FuzzDefinition(f *testing.F) {
	f.Add(resized(f))
	f.Add("<domain><memory>1</memory><vcpu>1</vcpu></domain>")
	f.Add(
		"<domain><memory>1</memory><vcpu>1</vcpu><devices>" +
			"<memory model='dimm'><target><size>2</size></target></memory></devices></domain>",
	)
	f.Fuzz(func(t *testing.T, text string) {
		def, err := parseDefinition(text)
		if err != nil {
			return
		}
		s := def.state()
		if len(s.Memory.Devices) != len(def.memoryDevices()) || s.VCPUs.Boot > s.VCPUs.Plugged {
			t.Errorf("inconsistent state %+v", s)
		}
		def.agentConnected()
	})
}

func TestKiB(t *testing.T) {
	for bytes, want := range map[uint64]uint64{0: 0, 1024: 1, 1 << 40: 1 << 30} {
		if got, err := toKiB(bytes); got != want || err != nil || fromKiB(got) != bytes {
			t.Errorf("toKiB(%d) = %d, %v, want %d", bytes, got, err, want)
		}
	}
	if _, err := toKiB(1025); err == nil {
		t.Error("libvirt would round 1025 bytes")
	}
}
