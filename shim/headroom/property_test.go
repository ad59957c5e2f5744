package headroom_test

import (
	"encoding/xml"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/memlock/domain"
	"github.com/mooring-vm/mooring/shim/headroom"
)

// drawDomain draws domains that libvirt accepts, in all shapes that Prepare handles.
func drawDomain(t *rapid.T) string {
	chance := func(name, text string) string {
		if rapid.Bool().Draw(t, name) {
			return text
		}
		return ""
	}
	cores := rapid.IntRange(1, 4).Draw(t, "cores")
	threads := rapid.IntRange(1, 2).Draw(t, "threads")
	sockets := rapid.IntRange(1, 3).Draw(t, "sockets")
	maximum := cores * threads * sockets
	current := rapid.IntRange(1, maximum).Draw(t, "current")
	vcpu := fmt.Sprintf(
		"<vcpu%s>%d</vcpu>", chance("has current", fmt.Sprintf(" current='%d'", current)), maximum,
	)
	topology := chance(
		"topology",
		fmt.Sprintf("<topology sockets='%d' cores='%d' threads='%d'/>", sockets, cores, threads),
	)
	cell := chance(
		"cell", fmt.Sprintf("<numa><cell cpus='0-%d' memory='1048576'/></numa>", maximum-1),
	)
	root := vcpu + chance("hard limit", "<memtune><hard_limit>2097152</hard_limit></memtune>") +
		chance(
			"huge pages", "<memoryBacking><hugepages/></memoryBacking>",
		) + chance("locked", "<memoryBacking><locked/></memoryBacking>") +
		chance(
			"maxMemory", "<maxMemory slots='2' unit='GiB'>1</maxMemory>",
		) + chance("arch", "<launchSecurity type='sev'/>")
	devices := chance("comment", "<!-- none -->") + chance("vDPA", "<interface type='vdpa'/>")
	text := guest(root, chance("cpu", "<cpu mode='host-model'>"+topology+cell+"</cpu>"), devices)
	if rapid.Bool().Draw(t, "flat") {
		text = withoutSpace(text)
	}
	return text
}

func drawOptions(t *rapid.T) headroom.Options {
	return headroom.Options{
		Memory: rapid.Int64Range(1, 1<<20).Draw(t, "memory capacity"),
		CPUs:   rapid.IntRange(1, 600).Draw(t, "CPU capacity"),
		Device: rapid.SampledFrom([]headroom.Device{"", headroom.VirtioMem, headroom.DIMM}).
			Draw(t, "device"),
		Slots: rapid.IntRange(0, 256).Draw(t, "slots"),
		Block: rapid.SampledFrom([]int64{0, 2, 128, 1024}).Draw(t, "block"),
	}
}

func TestPrepareIsIdempotent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, o := drawDomain(t), drawOptions(t)
		first, err := headroom.Prepare([]byte(text), o)
		if err != nil {
			return
		}
		checkResult(t, text, first, o)
		second, err := headroom.Prepare(first.XML, o)
		if err != nil || second.Changed || string(second.XML) != string(first.XML) {
			t.Fatalf(
				"%+v: another result the second time: %v\n%s\n%s", o, err, first.XML, second.XML,
			)
		}
	})
}

// checkResult checks properties of every result.
func checkResult(
	t interface{ Fatalf(string, ...any) },
	text string,
	r headroom.Result,
	o headroom.Options,
) {
	if r.Changed != (text != string(r.XML)) || len(r.Notes) == 0 {
		t.Fatalf("changed: %v, notes: %q", r.Changed, r.Notes)
	}
	before, err := domain.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	after, err := domain.Parse(r.XML)
	if err != nil {
		t.Fatalf("%v\n%s", err, r.XML)
	}
	capacity := max(uint64(o.Memory)<<10, before.Memory, before.MaxMemory)
	if after.Memory < before.Memory || after.Memory > capacity || after.MaxMemory > capacity {
		t.Fatalf(
			"memory %d of %d, was %d; capacity %d\n%s", after.Memory, after.MaxMemory,
			before.Memory, capacity, r.XML,
		)
	}
	for tag := range strings.SplitSeq(text, "<") {
		if mustStay(tag) && !strings.Contains(string(r.XML), tag) {
			t.Fatalf("%q is lost in\n%s", tag, r.XML)
		}
	}
}

// mustStay reports whether Prepare never changes text that begins with this tag.
func mustStay(tag string) bool {
	for _, name := range []string{
		"vcpu", "topology", "cell", "cpu", "maxMemory", "memory ", "memory>", "numa", "devices",
	} {
		if strings.HasPrefix(tag, name) {
			return false
		}
	}
	return true
}

// For any text Prepare returns an error, or well-formed XML that it does not change again.
func FuzzPrepare(f *testing.F) {
	for _, seed := range []string{
		plain(),
		kubeVirt,
		kubeVirtLive,
		cloudStack,
		cloudStackFixed,
		guest("<vcpus><vcpu/></vcpus>", "<cpu><numa/></cpu>", ""),
		"<domain>",
	} {
		f.Add(seed, int64(4096), 8, "")
		f.Add(seed, int64(8192), 300, "dimm")
	}
	f.Fuzz(func(t *testing.T, text string, memory int64, cpus int, device string) {
		o := headroom.Options{Memory: memory, CPUs: cpus, Device: headroom.Device(device)}
		first, err := headroom.Prepare([]byte(text), o)
		if err != nil {
			return
		}
		if err := xml.Unmarshal(first.XML, new(struct{})); err != nil {
			t.Fatalf("%v\n%s", err, first.XML)
		}
		second, err := headroom.Prepare(first.XML, o)
		if err != nil || string(second.XML) != string(first.XML) {
			t.Fatalf("another result the second time: %v\n%s\n%s", err, first.XML, second.XML)
		}
	})
}
