package headroom_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/shim/headroom"
)

// repeatedDevice is kubeVirt's device in virt-launcher's second definition, with the address from
// libvirt and a field of virt-launcher's struct.
const repeatedDevice = `<memory model="virtio-mem"><target><size unit="KiB">3145728</size>` +
	`<requested unit="KiB">0</requested><current unit="">0</current>` +
	`<node>0</node><block unit="KiB">2048</block></target>` +
	`<address type="pci" domain="0x0000" bus="0x07" slot="0x00" function="0x0"></address>` +
	`</memory>`

// virt-launcher defines each domain twice. The second definition has the devices of the first and
// none of the other changes.
func TestSecondDefinition(t *testing.T) {
	second := replaced(t, kubeVirt, `<memballoon`, repeatedDevice+`<memballoon`)
	want := replaced(
		t,
		second,
		`<memory unit="b">1073741824</memory>`,
		`<maxMemory slots="1" unit="KiB">4194304</maxMemory><memory unit="KiB">4194304</memory>`+
			`<currentMemory unit="KiB">1048576</currentMemory>`,
		`sockets="1"`,
		`sockets="4"`,
		`</topology>`,
		`</topology><numa><cell id="0" cpus="0-7" memory="1048576" unit="KiB"/></numa>`,
		`placement="static">2<`,
		`placement="static" current="2">8<`,
	)
	for name, text := range map[string]string{
		"same": second,
		"another capacity": replaced(
			t, second, `<size unit="KiB">3145728<`, `<size unit="b">1073741824<`,
			`<block unit="KiB">2048<`, `<block unit="KiB">4096<`,
		),
	} {
		got := prepare(t, text, growthOptions())
		if diff := cmp.Diff(want, string(got.XML)); diff != "" || !got.Changed {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
		if again := prepare(t, string(got.XML), growthOptions()); again.Changed {
			t.Errorf("%s: changed again:\n%s", name, again.XML)
		}
	}
	_, err := headroom.Prepare([]byte(second), dimmOptions())
	refused, ok := errors.AsType[*headroom.RefusedError](err)
	if !ok || len(refused.Reasons) != 1 ||
		!strings.HasPrefix(
			refused.Reasons[0], "devices/memory: a virtio-mem device without maxMemory",
		) {
		t.Errorf("with DIMMs: %v", err)
	}
}

// A virtio-mem device in use is not a repeated one.
func TestOtherVirtioMemDevices(t *testing.T) {
	cell := []string{
		`</topology>`,
		`</topology><numa><cell id="0" cpus="0-1" memory="1048576" unit="KiB"/></numa>`,
	}
	for name, device := range map[string]string{
		"memory requested": strings.Replace(
			repeatedDevice, `>0</requested>`, `>2048</requested>`, 1,
		),
		"two": repeatedDevice + repeatedDevice,
		"no block": strings.Replace(
			repeatedDevice, `<block unit="KiB">2048</block>`, "", 1,
		),
	} {
		text := replaced(t, kubeVirt, append(cell, `<memballoon`, device+`<memballoon`)...)
		got := prepare(t, text, headroom.Options{Memory: 8192, CPUs: 1})
		if got.Changed ||
			!strings.Contains(strings.Join(got.Notes, "\n"), "already has a virtio-mem device") {
			t.Errorf("%s: %q\n%s", name, got.Notes, got.XML)
		}
	}
}

var virtioMemElement = regexp.MustCompile(`(?s)<memory model='virtio-mem'>.*</memory>`)

func TestRepeatedDeviceIsAdopted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, o := drawDomain(t), drawOptions(t)
		first, err := headroom.Prepare([]byte(text), o)
		if err != nil || strings.Contains(text, "<maxMemory") ||
			!virtioMemElement.Match(first.XML) {
			return
		}
		text = strings.Replace(
			text, "</devices>", string(virtioMemElement.Find(first.XML))+"</devices>", 1,
		)
		second, err := headroom.Prepare([]byte(text), o)
		diff := cmp.Diff(withoutSpace(string(first.XML)), withoutSpace(string(second.XML)))
		if err != nil || diff != "" {
			t.Fatalf("%v (-first +second)\n%s", err, diff)
		}
	})
}

// KubeVirt writes slots="0" for a maxMemory without slots.
func TestNoSlots(t *testing.T) {
	text := replaced(
		t, kubeVirt, `<memory unit="b">`,
		`<maxMemory unit="b" slots="0">1073741824</maxMemory><memory unit="b">`,
	)
	got := prepare(t, text, dimmOptions())
	want := `<maxMemory unit="KiB" slots="16">4194304</maxMemory>`
	if !strings.Contains(string(got.XML), want) {
		t.Errorf("no %s in\n%s", want, got.XML)
	}
}
