package virttest

import (
	"testing"
	"time"

	"github.com/mooring-vm/mooring/shim/virt"
)

const mib = 1 << 20

func domainState() virt.State {
	return virt.State{
		Name:  "vm-1",
		UUID:  "5530f9f3-5627-4dec-933e-74ce04c51e18",
		Phase: virt.Running,
		VCPUs: virt.VCPUs{Plugged: 1, Boot: 1, Maximum: 16, Online: 1},
		Memory: virt.Memory{
			Boot:      160 * mib,
			Maximum:   1024 * mib,
			Slots:     3,
			Cells:     1,
			Balloon:   160 * mib,
			Ballooned: true,
			Devices: []virt.MemoryDevice{
				{Alias: "virtiomem0", Model: virt.VirtioMem, Size: 256 * mib, Block: 2 * mib},
			},
		},
		Bandwidth: virt.Bandwidth{
			Period:    100 * time.Millisecond,
			Quota:     virt.Unlimited,
			Shares:    1024,
			Supported: true,
		},
	}
}

func TestFake(t *testing.T) {
	Run(t, func(*testing.T) Fixture {
		f := New(domainState())
		return Fixture{
			Connection:   f,
			Domain:       f.First(),
			VCPUs:        true,
			Unplug:       true,
			Agent:        true,
			VirtioMem:    "virtiomem0",
			DIMM:         128 * mib,
			Balloon:      true,
			Bandwidth:    true,
			ACPI:         true,
			Restart:      func(*testing.T) { f.Restart(domainState()) },
			StopLibvirt:  func(*testing.T) { f.Disconnect() },
			StartLibvirt: func(*testing.T) { f.Reconnect() },
		}
	})
}

func TestMinimalFake(t *testing.T) {
	Run(t, func(*testing.T) Fixture {
		s := domainState()
		s.Memory = virt.Memory{Boot: 160 * mib, Balloon: 160 * mib}
		s.Bandwidth = virt.Bandwidth{}
		s.VCPUs.Online = virt.Unknown
		f := New(s)
		f.First().SetGuest(Guest{KeepVCPUs: true})
		return Fixture{
			Connection: f,
			Domain:     f.First(),
			Restart:    func(*testing.T) { f.Restart(s) },
			VCPUs:      true,
			ACPI:       true,
		}
	})
}

func TestAttachToFake(t *testing.T) {
	RunAttach(t, func(*testing.T) Fixture {
		s := domainState()
		s.Memory.Devices, s.Memory.Slots = nil, 0
		f := New(s)
		return Fixture{Connection: f, Domain: f.First()}
	})
}
