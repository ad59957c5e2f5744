package headroom_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/shim/headroom"
)

// The changes to a guest domain, as pairs of old and new text.
var (
	grownMemory = []string{
		"<memory unit='KiB'>1048576<",
		"<maxMemory slots='1' unit='KiB'>4194304</maxMemory>\n  <memory unit='KiB'>4194304<",
		"<memballoon model='none'/>",
		"<memballoon model='none'/>\n    " + virtioMem,
	}
	dimmMemory = []string{
		"<memory unit='KiB'>1048576<",
		"<maxMemory slots='16' unit='KiB'>4194304</maxMemory>\n  <memory unit='KiB'>1048576<",
	}
	eightVCPUs = []string{"<vcpu placement='static'>2<", "<vcpu placement='static' current='2'>8<"}
)

func numa(cpus string) string {
	cell := "<cell id='0' cpus='" + cpus + "' memory='1048576' unit='KiB'/>"
	return "<numa>\n      " + cell + "\n    </numa>"
}

func pairs(lists ...[]string) (all []string) {
	for _, l := range lists {
		all = append(all, l...)
	}
	return all
}

// pairs lists all changes. The rest of the text must stay byte for byte.
func TestPrepare(t *testing.T) {
	hostModel := []string{
		"<cpu mode='host-model'/>",
		"<cpu mode='host-model'>\n    " + numa("0-7") + "\n  </cpu>",
	}
	oneCell := "<cpu>\n    <numa>\n      <cell id='0' cpus='0-1' memory='1024' unit='MiB'/>\n    " +
		"</numa>\n  </cpu>"
	extended := []string{"cpus='0-1'", "cpus='0-7'"}
	for name, c := range map[string]struct {
		text  string
		o     headroom.Options
		pairs []string
		notes []string // parts of the notes
	}{
		"plain": {
			plain(),
			growthOptions(),
			pairs(grownMemory, eightVCPUs, hostModel),
			[]string{
				"vCPUs: 2, can grow to 8",
				"memory: 1Gi, can grow to 4Gi with virtio-mem (block size 2Mi)",
				"NUMA: one cell with all vCPUs",
			},
		},
		"the host's": {
			plain(),
			headroom.Options{Host: headroom.Host{Memory: 4096, CPUs: 8}},
			pairs(grownMemory, eightVCPUs, hostModel),
			nil,
		},
		"slots": {
			plain(),
			dimmOptions(),
			pairs(dimmMemory, eightVCPUs, hostModel),
			[]string{"can grow to 4Gi with DIMMs (16 slots)"},
		},
		"vCPUs alone": {
			plain(),
			headroom.Options{Memory: 1024, CPUs: 8},
			eightVCPUs,
			[]string{"memory: unchanged: 1Gi is at or above the capacity of 1Gi"},
		},
		"memory alone": {
			plain(),
			headroom.Options{
				Memory: 4096,
				CPUs:   1,
			},
			pairs(grownMemory, []string{
				"<cpu mode='host-model'/>",
				"<cpu mode='host-model'>\n    " + numa("0-1") + "\n  </cpu>",
			}),
			[]string{"vCPUs: unchanged: 2 is at or above the capacity of 1"},
		},
		"nothing": {
			plain(),
			headroom.Options{Memory: 512, CPUs: 2},
			nil,
			[]string{"vCPUs: unchanged: 2", "memory: unchanged: 1Gi"},
		},
		"no cpu": {
			guest(
				twoVCPUs, "<!-- none -->", "",
			),
			growthOptions(),
			pairs(grownMemory, eightVCPUs, []string{
				"  </devices>\n", "  </devices>\n  <cpu>\n    " + numa("0-7") + "\n  </cpu>\n"}),
			nil,
		},
		"no vcpu": {
			guest("", "<cpu/>", ""),
			headroom.Options{Memory: 1, CPUs: 4},
			[]string{
				"<name>", "<vcpu current='1'>4</vcpu>\n  <name>"},
			[]string{"vCPUs: 1, can grow to 4"},
		},
		"a cell": {
			guest(twoVCPUs, oneCell, ""),
			growthOptions(),
			pairs(grownMemory, eightVCPUs, extended),
			[]string{"NUMA: cell 0 gets the vCPUs 0-7"},
		},
		"cpuset": {
			guest("<vcpu placement='static' cpuset='4-7'>2</vcpu>", "", ""),
			headroom.Options{Memory: 1, CPUs: 4},
			[]string{"'4-7'>2<", "'4-7' current='2'>4<"},
			nil,
		},
		"balloon": {
			replaced(t, plain(), "1048576</currentMemory>", "524288</currentMemory>"),
			growthOptions(),
			pairs(grownMemory, eightVCPUs, hostModel),
			nil,
		},
		"no empty": {
			replaced(t, plain(), "  <currentMemory unit='KiB'>1048576</currentMemory>\n", ""),
			growthOptions(),
			pairs(
				grownMemory,
				[]string{
					"4194304</memory>",
					"4194304</memory>\n  <currentMemory unit='KiB'>1048576</currentMemory>",
				},
				eightVCPUs,
				hostModel,
			),
			nil,
		},
		"no room left": {
			replaced(
				t, guest(twoVCPUs, oneCell, ""), "<memory unit='KiB'>1",
				"<maxMemory slots='2' unit='GiB'>1</maxMemory>\n  <memory unit='KiB'>1",
			),
			dimmOptions(),
			pairs(eightVCPUs, extended, []string{"unit='GiB'>1<", "unit='KiB'>4194304<"}),
			nil,
		},
		"hard limit": {
			replaced(
				t, plain(), "<vcpu",
				"<memtune><hard_limit unit='GiB'>2</hard_limit></memtune><vcpu",
			),
			growthOptions(),
			pairs(grownMemory, eightVCPUs, hostModel),
			[]string{"memtune: unchanged: the hard limit bounds QEMU's memory at 2Gi"},
		},
		"pinned": {
			replaced(
				t, plain(), "<os>", "<cputune><vcpupin vcpu='0' cpuset='3'/></cputune><os>",
			),
			headroom.Options{Memory: 1, CPUs: 4},
			[]string{"static'>2<", "static' current='2'>4<"},
			[]string{"vCPUs 2 and above are not pinned"},
		},
		"locked": {
			replaced(t, plain(), "<os>", "<memoryBacking><locked/></memoryBacking><os>"),
			growthOptions(),
			pairs(dimmMemory, eightVCPUs, hostModel),
			[]string{"DIMMs instead of virtio-mem: QEMU does not support it with locked memory"},
		},
		"vDPA": {
			guest(
				twoVCPUs, "<cpu mode='host-model'/>",
				"<interface type='vdpa'><source dev='/dev/vhost-vdpa-0'/></interface>",
			),
			growthOptions(),
			pairs(dimmMemory, eightVCPUs, hostModel),
			[]string{"DIMMs instead of virtio-mem: QEMU does not support it with vDPA"},
		},
		"NVMe": {
			guest(
				twoVCPUs, "<cpu mode='host-model'/>",
				"<disk type='nvme'><source type='pci'/></disk>",
			),
			growthOptions(),
			pairs(dimmMemory, eightVCPUs, hostModel),
			[]string{
				"DIMMs instead of virtio-mem: QEMU does not support it with passed-through NVMe",
			},
		},
		"huge pages": {
			replaced(
				t,
				plain(),
				"<os>",
				"<memoryBacking><hugepages><page size='1' unit='G'/></hugepages></memoryBacking>"+
					"<os>",
			),
			growthOptions(),
			pairs(
				grownMemory, eightVCPUs, hostModel,
				[]string{"<block unit='KiB'>2048<", "<block unit='KiB'>1048576<"},
			),
			[]string{"(block size 1Gi)"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := prepare(t, c.text, c.o)
			if diff := cmp.Diff(replaced(t, c.text, c.pairs...), string(got.XML)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if got.Changed != (len(c.pairs) > 0) {
				t.Errorf("changed: %v", got.Changed)
			}
			for _, want := range c.notes {
				if all := strings.Join(got.Notes, "\n"); !strings.Contains(all, want) {
					t.Errorf("no note says %q:\n%s", want, all)
				}
			}
		})
	}
}

func TestPrepareKnownDomains(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		pairs []string
	}{
		"KubeVirt": {
			kubeVirt,
			[]string{
				`<memory unit="b">1073741824</memory>`,
				`<maxMemory slots="1" unit="KiB">4194304</maxMemory>` +
					`<memory unit="KiB">4194304</memory>` +
					`<currentMemory unit="KiB">1048576</currentMemory>`,
				`</memballoon>`, `</memballoon>` + withoutSpace(
					strings.ReplaceAll(virtioMem, `'`, `"`),
				),
				`sockets="1"`, `sockets="4"`,
				`</topology>`,
				`</topology><numa><cell id="0" cpus="0-7" memory="1048576" unit="KiB"/></numa>`,
				`placement="static">2<`, `placement="static" current="2">8<`,
			},
		},
		"KubeVirt, with live updates": {kubeVirtLive, nil},
		"CloudStack":                  {cloudStack, nil},
		"CloudStack, fixed": {
			cloudStackFixed,
			[]string{
				"<memory unit='KiB'>1048576</memory>",
				"<maxMemory slots='1' unit='KiB'>4194304</maxMemory>\n<memory " +
					"unit='KiB'>4194304</memory>\n<currentMemory " +
					"unit='KiB'>1048576</currentMemory>",
				"<vcpu>2<", "<vcpu current='2'>8<",
				"<topology sockets='1' cores='2' threads='1'/>",
				"<topology sockets='4' cores='2' threads='1'/><numa>" +
					"<cell id='0' cpus='0-7' memory='1048576' unit='KiB'/></numa>",
				"<memballoon model='virtio'/>",
				"<memballoon model='virtio'/>\n" + strings.ReplaceAll(virtioMem, "\n    ", "\n"),
			},
		},
	} {
		got := prepare(t, c.text, growthOptions())
		if diff := cmp.Diff(replaced(t, c.text, c.pairs...), string(got.XML)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
}

// Existing headroom stays, even if it is smaller than the capacity, and the notes say so.
func TestExistingHeadroom(t *testing.T) {
	large := headroom.Options{Memory: 1 << 20, CPUs: 200}
	for _, text := range []string{
		cloudStack,
		kubeVirtLive,
		string(prepare(t, plain(), growthOptions()).XML),
		string(prepare(t, plain(), dimmOptions()).XML),
	} {
		got := prepare(t, text, large)
		if !bytes.Equal(got.XML, []byte(text)) || got.Changed || len(got.Notes) != 2 {
			t.Errorf("%+v", got.Notes)
		}
		for _, note := range got.Notes {
			if !strings.Contains(note, "unchanged: the domain already has") {
				t.Errorf("note: %s", note)
			}
		}
	}
}

// A domain with headroom for vCPUs still gets headroom for memory.
func TestIndependentResources(t *testing.T) {
	text := guest(
		"<vcpu current='2'>4</vcpu>", "<cpu><topology sockets='4' cores='1' threads='1'/></cpu>",
		"",
	)
	want := replaced(
		t,
		text,
		pairs(
			grownMemory, []string{"threads='1'/>", "threads='1'/>" + withoutSpace(numa("0-3"))},
		)...)
	if diff := cmp.Diff(want, string(prepare(t, text, growthOptions()).XML)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestTopology(t *testing.T) {
	for _, c := range []struct {
		vcpus, capacity int
		before, after   string
		maximum         int    // 0: as it was
		note            string // part of the notes
	}{
		{
			2,
			8,
			"sockets='2' cores='1' threads='1'",
			"sockets='8' cores='1' threads='1'",
			8,
			"8 sockets instead of 2",
		},
		{
			8,
			20,
			"sockets='1' cores='4' threads='2'",
			"sockets='2' cores='4' threads='2'",
			16,
			"below the capacity of 20: 16 is the largest multiple of the 8 vCPUs per socket",
		},
		{
			8,
			15,
			"sockets='1' cores='4' threads='2'",
			"sockets='1' cores='4' threads='2'",
			0,
			"unchanged: 8: another socket of 8 would exceed the capacity of 15",
		},
		{
			8,
			64,
			"sockets='1' dies='2' cores='2' threads='2'",
			"sockets='8' dies='2' cores='2' threads='2'",
			64,
			"8 sockets",
		},
		{
			8,
			64,
			"sockets='1' dies='2' clusters='2' cores='1' threads='2'",
			"sockets='8' dies='2' clusters='2' cores='1' threads='2'",
			64,
			"8 sockets",
		},
		{
			2,
			1000,
			"sockets='1' cores='2' threads='1'",
			"sockets='127' cores='2' threads='1'",
			254,
			"more than 255 vCPUs need a virtual IOMMU",
		},
		{
			300,
			1000,
			"sockets='300' cores='1' threads='1'",
			"sockets='300' cores='1' threads='1'",
			0,
			"unchanged: 300 is at or above the capacity of 255",
		},
	} {
		text := guest(
			fmt.Sprintf("<vcpu>%d</vcpu>", c.vcpus), "<cpu><topology "+c.before+"/></cpu>", "",
		)
		want := text
		if c.maximum > 0 {
			want = replaced(t, text, fmt.Sprintf("<vcpu>%d<", c.vcpus),
				fmt.Sprintf("<vcpu current='%d'>%d<", c.vcpus, c.maximum), c.before, c.after)
		}
		got := prepare(t, text, headroom.Options{Memory: 1, CPUs: c.capacity})
		if diff := cmp.Diff(want, string(got.XML)); diff != "" {
			t.Errorf("%+v (-want +got)\n%s", c, diff)
		}
		if all := strings.Join(got.Notes, "\n"); !strings.Contains(all, c.note) {
			t.Errorf("%+v: missing in the notes:\n%s", c, all)
		}
	}
}
