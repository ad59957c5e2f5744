package headroom_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/shim/headroom"
)

// refusal is a domain that Prepare refuses.
type refusal struct {
	o     headroom.Options
	pairs []string // replacements in plain()
	want  []string // the prefixes of all reasons
}

func refusals() []refusal {
	virtio := growthOptions()
	virtio.Device = headroom.VirtioMem
	block := growthOptions()
	block.Block = 8
	return []refusal{
		{
			growthOptions(),
			[]string{"type='kvm'", "type='lxc'"},
			[]string{`type "lxc": want kvm or qemu`},
		},
		{
			growthOptions(),
			[]string{"arch='x86_64'", "arch='aarch64'"},
			[]string{`os/type arch "aarch64": want x86_64`},
		},
		{
			growthOptions(),
			[]string{"arch='x86_64'", "arch='ppc64le'", "pc-q35-7.2", "pseries", "<acpi/>", ""},
			[]string{`os/type arch "ppc64le": want x86_64`},
		},
		{growthOptions(), []string{"arch='x86_64' ", ""}, []string{`os/type arch "": want x86_64`}},
		{
			growthOptions(),
			[]string{"machine='pc-q35-7.2'", "machine='microvm'"},
			[]string{`os/type machine "microvm": want a pc or q35 machine`},
		},
		{growthOptions(), []string{"<acpi/>", ""}, []string{"features: <acpi/> is missing"}},
		{
			growthOptions(),
			[]string{"<os>", "<launchSecurity type='sev'/><os>"},
			[]string{"launchSecurity: "},
		},
		{
			growthOptions(),
			[]string{
				"<os>",
				"<cputune><vcpusched vcpus='0' scheduler='fifo' priority='1'/><vcpusched " +
					"vcpus='1' scheduler='rr' priority='1'/></cputune><os>",
			},
			[]string{`cputune/vcpusched scheduler "fifo": `},
		},
		{
			growthOptions(),
			[]string{
				"<os>",
				"<numatune><memnode cellid='0' mode='strict' nodeset='0'/></numatune><os>",
				"<cpu mode='host-model'/>",
				"<cpu><numa><cell memory='1'/><cell memory='1'/></numa></cpu>",
			},
			[]string{"numatune/memnode with 2 NUMA cells"},
		},
		{
			growthOptions(),
			[]string{
				"<cpu mode='host-model'/>",
				"<cpu><topology sockets='4' cores='1' threads='1'/></cpu>",
			},
			[]string{"cpu/topology has 4 vCPUs and vcpu has 2: want the same number"},
		},
		{
			growthOptions(),
			[]string{
				"<cpu mode='host-model'/>",
				"<cpu><numa><cell cpus='0-2' memory='1'/></numa></cpu>",
			},
			[]string{`cpu/numa/cell[0] cpus "0-2": want numbers below 2`},
		},
		{
			growthOptions(),
			[]string{
				"1048576<",
				"1572864<",
				"<os>",
				"<memoryBacking><hugepages><page size='1' " +
					"unit='GiB'/></hugepages></memoryBacking><os>",
			},
			[]string{"memory: 1536Mi: want a multiple of the huge page size, 1Gi"},
		},
		{
			block,
			[]string{
				"<os>",
				"<memoryBacking><hugepages><page size='1' " +
					"unit='GiB'/></hugepages></memoryBacking><os>",
			},
			[]string{"virtio-mem: block size 8Mi: want a multiple of the huge page size, 1Gi"},
		},
		{
			headroom.Options{Memory: 1025, CPUs: 1},
			nil,
			[]string{
				"virtio-mem: 1Mi between the domain's memory, 1Gi, and the capacity: want at " +
					"least one block, 2Mi",
			},
		},
		{
			virtio,
			[]string{"<os>", "<memoryBacking><locked/></memoryBacking><os>"},
			[]string{"virtio-mem: QEMU does not support it with locked memory"},
		},
		{
			virtio,
			[]string{"<memballoon model='none'/>", "<interface type='vdpa'/>"},
			[]string{"virtio-mem: QEMU does not support it with vDPA devices"},
		},
		{
			dimmOptions(),
			[]string{
				"<memballoon model='none'/>",
				"<memory model='dimm'><target><size>512</size></target></memory>",
			},
			[]string{"devices/memory without a NUMA cell"},
		},
		{
			dimmOptions(),
			[]string{
				"type='kvm'",
				"type='xen'",
				"pc-q35-7.2",
				"isapc",
				"<acpi/>",
				"",
				"<os>",
				"<launchSecurity type='s390-pv'/><os>",
			},
			[]string{"type ", "os/type machine ", "features: ", "launchSecurity: "},
		},
	}
}

func TestRefusals(t *testing.T) {
	for _, c := range refusals() {
		text := replaced(t, plain(), c.pairs...)
		got, err := headroom.Prepare([]byte(text), c.o)
		refused, ok := errors.AsType[*headroom.RefusedError](err)
		if !ok || len(refused.Reasons) != len(c.want) {
			t.Errorf("got %v, want %q\n%s", err, c.want, text)
			continue
		}
		for i, want := range c.want {
			if !strings.HasPrefix(refused.Reasons[i], want) ||
				!strings.Contains(err.Error(), refused.Reasons[i]) {
				t.Errorf("got %q, want %q", refused.Reasons[i], want)
			}
		}
		if diff := cmp.Diff(headroom.Result{}, got); diff != "" {
			t.Errorf("a result beside the error: %s", diff)
		}
	}
}

// The document has a row for each refusal, under the element that the reason names.
func TestRefusalsInDocs(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "how-to", "headroom.md"))
	if err != nil {
		t.Fatal(err)
	}
	element := regexp.MustCompile(`^(os/type )?[a-zA-Z/-]+`)
	for _, c := range refusals() {
		for _, reason := range c.want {
			if row := "\n| `" + element.FindString(reason); !strings.Contains(string(doc), row) {
				t.Errorf("%q: no row %q in the document", reason, row)
			}
		}
	}
}

// A domain without changes is never refused: a VM must not fail to start for headroom it does not
// get.
func TestUnchangedIsNeverRefused(t *testing.T) {
	text := replaced(
		t, plain(), "arch='x86_64'", "arch='aarch64'", "<os>", "<launchSecurity type='sev'/><os>",
	)
	got := prepare(t, text, headroom.Options{Memory: 1024, CPUs: 2})
	if string(got.XML) != text || len(got.Notes) != 2 {
		t.Errorf("%+v", got)
	}
}

// virtio-mem needs no ACPI.
func TestMemoryWithoutACPI(t *testing.T) {
	got := prepare(t, replaced(t, plain(), "<acpi/>", ""), headroom.Options{Memory: 4096, CPUs: 2})
	if !got.Changed {
		t.Errorf("%+v", got)
	}
}

func TestBadXML(t *testing.T) {
	for _, c := range []struct{ pair, want string }{
		{"<domain type='kvm'>|<network>", "domain XML: "},
		{"<memory unit='KiB'>|<memory unit='apples'>", `unit "apples"`},
		{">2</vcpu>|>two</vcpu>", `domain XML: vcpu: "two": want a number from 1 to 16384`},
		{">2</vcpu>|>0</vcpu>", `domain XML: vcpu: "0": want a number from 1 to 16384`},
		{
			"placement='static'|current='3'",
			"domain XML: vcpu: current 3: want at most 2, the number of vCPUs",
		},
		{"placement='static'|current='0'", `domain XML: vcpu current: "0"`},
		{
			"<cpu mode='host-model'/>|<cpu><topology sockets='1' cores='0' threads='1'/></cpu>",
			`domain XML: cpu/topology cores: "0": want a number from 1`,
		},
		{
			"<cpu mode='host-model'/>|<cpu><topology sockets='1' cores='16384' threads='2'/></cpu>",
			"32768 vCPUs per socket",
		},
		{"<cpu mode='host-model'/>|<cpu><topology cores='2'/></cpu>", "cpu/topology sockets: "},
		{
			"<cpu mode='host-model'/>|<cpu><numa><cell cpus='0-3,^2' memory='1'/></numa></cpu>",
			`cpu/numa/cell[0] cpus "0-3,^2": want numbers and ranges such as 0-3,8`,
		},
		{
			"<cpu mode='host-model'/>|<cpu><numa><cell cpus='0-4294967295' " +
				"memory='1'/></numa></cpu>",
			"want numbers and ranges",
		},
		{
			"<cpu mode='host-model'/>|<cpu><numa><cell cpus='3-0' memory='1'/></numa></cpu>",
			"cpu/numa/cell[0] cpus: ",
		},
		{
			"<os>|<memoryBacking><hugepages><page size='big'/></hugepages></memoryBacking><os>",
			"memoryBacking/hugepages",
		},
		{
			"<os>|<memoryBacking><hugepages><page size='1' " +
				"unit='?'/></hugepages></memoryBacking><os>",
			`unit "?"`,
		},
	} {
		before, after, _ := strings.Cut(c.pair, "|")
		_, err := headroom.Prepare([]byte(replaced(t, plain(), before, after)), growthOptions())
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", after, err, c.want)
		}
	}
}

func TestBadOptions(t *testing.T) {
	for _, c := range []struct {
		o    headroom.Options
		want string
	}{
		{headroom.Options{CPUs: 1}, "memory capacity: missing, and the host's memory is unknown"},
		{headroom.Options{Memory: 1}, "CPU capacity: missing, and the host's CPUs are unknown"},
		{
			headroom.Options{Memory: 1 << 43, CPUs: 1},
			"memory capacity 8796093022208 MiB: want at most 4398046511104",
		},
		{
			headroom.Options{Memory: 1, CPUs: 1, Device: "ram"},
			`memory device "ram": want virtio-mem or dimm`,
		},
		{headroom.Options{Memory: 1, CPUs: 1, Slots: 257}, "memory slots 257: want 1 to 256"},
		{headroom.Options{Memory: 1, CPUs: 1, Slots: -1}, "memory slots -1"},
		{
			headroom.Options{Memory: 1, CPUs: 1, Block: 3},
			"memory block of 3 MiB: want a power of two, at least 2",
		},
		{headroom.Options{Memory: 1, CPUs: 1, Block: 1}, "memory block of 1 MiB"},
		{headroom.Options{Memory: 1, CPUs: 1, Block: -2}, "memory block of -2 MiB"},
	} {
		_, err := headroom.Prepare([]byte(plain()), c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %q", c.o, err, c.want)
		}
	}
}
