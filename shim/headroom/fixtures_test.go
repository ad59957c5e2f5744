package headroom_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/shim/headroom"
)

// guest is a domain with 1 GiB of memory, two vCPUs and the given elements.
func guest(root, cpu, devices string) string {
	return fmt.Sprintf(`<domain type='kvm'>
  <name>db</name>
  <memory unit='KiB'>1048576</memory>
  <currentMemory unit='KiB'>1048576</currentMemory>
  %s
  <os>
    <type arch='x86_64' machine='pc-q35-7.2'>hvm</type>
  </os>
  <features>
    <acpi/>
  </features>
  %s
  <devices>
    %s
    <memballoon model='none'/>
  </devices>
</domain>
`, root, cpu, devices)
}

const twoVCPUs = `<vcpu placement='static'>2</vcpu>`

func plain() string { return guest(twoVCPUs, `<cpu mode='host-model'/>`, "") }

// replaced replaces parts of a text. Each part must be present.
func replaced(t *testing.T, text string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("%q is not in\n%s", pairs[i], text)
		}
		text = strings.Replace(text, pairs[i], pairs[i+1], 1)
	}
	return text
}

var between = regexp.MustCompile(`>\s+<`)

// withoutSpace removes the white space between elements.
func withoutSpace(text string) string { return between.ReplaceAllString(text, "><") }

// growthOptions is the capacity of most tests: 4 GiB and 8 vCPUs.
func growthOptions() headroom.Options { return headroom.Options{Memory: 4096, CPUs: 8} }

func dimmOptions() headroom.Options {
	o := growthOptions()
	o.Device = headroom.DIMM
	return o
}

func prepare(t *testing.T, text string, o headroom.Options) headroom.Result {
	t.Helper()
	r, err := headroom.Prepare([]byte(text), o)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return r
}

const virtioMem = `<memory model='virtio-mem'>
      <target>
        <size unit='KiB'>3145728</size>
        <node>0</node>
        <block unit='KiB'>2048</block>
        <requested unit='KiB'>0</requested>
      </target>
    </memory>`

// cloudStack is a domain as CloudStack's agent starts it for a scalable offering.
const cloudStack = `<domain type='kvm'>
<name>i-2-7-VM</name>
<uuid>36be78b6-03f7-4a4c-a39a-9d0c3eaf5e7b</uuid>
<description>Debian GNU/Linux 12 (64-bit)</description>
<memory unit='KiB'>1048576</memory>
<maxMemory slots='16' unit='KiB'>8388608</maxMemory>
<vcpu placement='static' current='2'>8</vcpu>
<cpu mode='host-model'><topology sockets='8' cores='1' threads='1'/><numa><cell id='0' cpus='0-7' memory='1048576' unit='KiB'/></numa></cpu>
<cputune>
<shares>1000</shares>
</cputune>
<os>
<type arch='x86_64' machine='pc'>hvm</type>
</os>
<features>
<pae/>
<acpi/>
</features>
<devices>
<memballoon model='virtio'/>
</devices>
</domain>
`

// cloudStackFixed is a domain of an offering that cannot scale.
var cloudStackFixed = strings.NewReplacer(
	"<maxMemory slots='16' unit='KiB'>8388608</maxMemory>\n",
	"",
	"<vcpu placement='static' current='2'>8</vcpu>",
	"<vcpu>2</vcpu>",
	"<topology sockets='8' cores='1' threads='1'/><numa><cell id='0' cpus='0-7' memory='1048576' "+
		"unit='KiB'/></numa>",
	"<topology sockets='1' cores='2' threads='1'/>",
).Replace(cloudStack)

// kubeVirt is a domain as virt-launcher renders it without live updates. It is on one line, uses
// double quotes, and has elements of QEMU and KubeVirt.
const kubeVirt = `<domain type="kvm" xmlns:qemu="http://libvirt.org/schemas/domain/qemu/1.0">` +
	`<name>vms_db</name>` +
	`<memory unit="b">1073741824</memory><os><type arch="x86_64" machine="q35">hvm</type>` +
	`<smbios mode="sysinfo"></smbios></os>` +
	`<sysinfo type="smbios"><system>` +
	`<entry name="uuid">5d307ca9-b3ef-428c-8861-06e72d69f223</entry></system></sysinfo>` +
	`<devices><controller type="usb" index="0" model="none"></controller>` +
	`<memballoon model="virtio"><stats period="10"></stats></memballoon></devices>` +
	`<metadata><kubevirt xmlns="http://kubevirt.io"><uid>5d307ca9</uid><graceperiod>` +
	`<deletionGracePeriodSeconds>30</deletionGracePeriodSeconds></graceperiod></kubevirt>` +
	`</metadata>` +
	`<features><acpi></acpi></features><cpu mode="host-model">` +
	`<topology sockets="1" cores="2" threads="1"></topology></cpu>` +
	`<vcpu placement="static">2</vcpu><iothreads>1</iothreads>` +
	`<qemu:commandline><qemu:arg value="-fw_cfg"/>` +
	`<qemu:arg value="name=opt/a,string=&quot;b&quot;"/></qemu:commandline></domain>`

// kubeVirtLive is a domain with live updates, which has headroom from KubeVirt.
const kubeVirtLive = `<domain type="kvm"><name>vms_db</name>` +
	`<maxMemory unit="b">4294967296</maxMemory><memory unit="b">1073741824</memory>` +
	`<os><type arch="x86_64" machine="q35">hvm</type></os><features><acpi></acpi></features>` +
	`<cpu mode="host-model"><topology sockets="4" cores="1" threads="1"></topology><numa>` +
	`<cell id="0" cpus="0-3" memory="1073741824" unit="b"></cell></numa></cpu>` +
	`<vcpu placement="static">4</vcpu><vcpus><vcpu id="0" enabled="yes" hotpluggable="no"></vcpu>` +
	`<vcpu id="1" enabled="no" hotpluggable="yes"></vcpu>` +
	`<vcpu id="2" enabled="no" hotpluggable="yes"></vcpu>` +
	`<vcpu id="3" enabled="no" hotpluggable="yes"></vcpu></vcpus><devices></devices></domain>`
