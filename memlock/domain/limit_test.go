package domain_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/memlock/domain"
)

const backedByNVMe = `<disk type='file' device='disk'><source file='/a'/><target dev='vda'/>` +
	`<backingStore type='file'><source file='/b'/><backingStore type='nvme'><source type='pci' ` +
	`namespace='1'/></backingStore></backingStore></disk>`

const backedByVDPA = `<disk type='vhostvdpa' device='disk'><source ` +
	`dev='/dev/vhost-vdpa-1'/><target dev='vdb'/>` +
	`<backingStore type='vhostvdpa'><source dev='/dev/vhost-vdpa-2'/></backingStore></disk>`

func TestDevices(t *testing.T) {
	for name, c := range map[string]struct {
		xml     string
		factor  int64
		devices string
	}{
		"mediated device":            {pc(mdev), 1, "vfio=1"},
		"two mediated with an IOMMU": {pc(mdev, mdev, iommu), 2, "vfio=2,iommu"},
		"channel device of s390x": {guest("kvm", "s390x", memory1G,
			strings.Replace(mdev, "vfio-pci", "vfio-ccw", 1)), 1, "vfio=1"},
		"crypto device of s390x": {guest("kvm", "s390x", memory1G,
			strings.Replace(mdev, "vfio-pci", "vfio-ap", 1)), 1, "vfio=1"},
		"NVMe twice in one chain": {pc(strings.Replace(nvme, "</disk>", "<backingStore type='nvme'>"+
			"<source type='pci' namespace='2'/></backingStore></disk>", 1)), 1, "nvme=1"},
		"NVMe over a vDPA disk": {pc(strings.Replace(nvme, "</disk>", "<backingStore "+
			"type='vhostvdpa'><source dev='/dev/vhost-vdpa-2'/></backingStore></disk>", 1)), 2,
			"vdpa=1,nvme=1"},
		"two host devices":             {pc(pci, pci), 1, "vfio=2"},
		"PCI and mediated":             {pc(pci, mdev), 1, "vfio=2"},
		"two with an IOMMU":            {pc(pci, pci, iommu), 2, "vfio=2,iommu"},
		"SR-IOV interface":             {pc(sriov), 1, "vfio=1"},
		"SR-IOV and PCI with an IOMMU": {pc(sriov, pci, iommu), 2, "vfio=2,iommu"},
		"NVMe":                         {pc(nvme), 1, "nvme=1"},
		"two NVMe":                     {pc(nvme, nvme), 2, "nvme=2"},
		"NVMe with an IOMMU":           {pc(nvme, nvme, iommu), 2, "nvme=2,iommu"},
		"NVMe under other images":      {pc(backedByNVMe), 1, "nvme=1"},
		"vDPA interface":               {pc(vdpaNet), 1, "vdpa=1"},
		"vDPA disk":                    {pc(vdpaDisk), 1, "vdpa=1"},
		"vDPA disk on another":         {pc(backedByVDPA), 2, "vdpa=2"},
		"vDPA interfaces and disk":     {pc(vdpaNet, vdpaNet, vdpaDisk), 3, "vdpa=3"},
		"all with an IOMMU": {pc(vdpaNet, vdpaDisk, nvme, pci, mdev, sriov, iommu), 6,
			"vfio=3,vdpa=2,nvme=1,iommu"},
		"all without": {pc(vdpaNet, vdpaDisk, nvme, pci, mdev, sriov), 4,
			"vfio=3,vdpa=2,nvme=1"},
		"host device without mode": {pc(strings.Replace(pci, "mode='subsystem' ", "", 1)),
			1, "vfio=1"},
		"host device by iommufd": {
			pc(strings.Replace(pci, "<source>", "<driver iommufd='yes'/><source>", 1)),
			1, "vfio=1"},
		"also where KVM is not used": {guest("qemu", "x86_64", memory1G, pci, iommu), 1,
			"vfio=1,iommu"},
		"also on Arm": {guest("kvm", "aarch64", memory1G, pci,
			"<iommu model='smmuv3'/>"), 1, "vfio=1,iommu"},
		"TCG pSeries as any other": {guest("qemu", "ppc64le", memory1G, pci, pci), 1, "vfio=2"},
		"no architecture": {strings.Replace(pc(pci), " arch='x86_64'", "", 1),
			1, "vfio=1"},
		"backing store without source": {
			pc(strings.Replace(nvme, "</disk>", "<backingStore type='nvme'/></disk>", 1)),
			1, "nvme=1"},
	} {
		got, r := limitOf(t, c.xml)
		if want := c.factor*gib + gib; got != want ||
			!strings.Contains(r.Reason, "("+c.devices+")") {
			t.Errorf("%s: got %d, want %d: %+v", name, got, want, r)
		}
	}
}

// Some settings look like a reason to lock memory, but not to libvirt.
func TestNotDevices(t *testing.T) {
	for name, xml := range map[string]string{
		"USB": pc(
			`<hostdev mode='subsystem' type='usb'><source><vendor id='0x1234'/><product ` +
				`id='0xbeef'/></source></hostdev>`),
		"SCSI": pc(
			`<hostdev mode='subsystem' type='scsi'><source><adapter name='scsi_host0'/><address ` +
				`bus='0' target='0' unit='0'/></source></hostdev>`),
		"capabilities": pc(`<hostdev mode='capabilities' ` +
			`type='misc'><source><char>/dev/input/event3</char></source></hostdev>`),
		"USB interface": pc(`<interface type='hostdev'><source><address type='usb' bus='0' ` +
			`device='2'/></source></interface>`),
		"a foreign namespace": pc(`<a:memory xmlns:a='urn:a'>9</a:memory>`),
		"vhost-user": pc(`<interface type='vhostuser'><source type='unix' path='/tmp/v' ` +
			`mode='server'/></interface>`),
		"network": pc(`<interface type='network'><source network='default' ` +
			`bridge='virbr0'/></interface>`),
		"an IOMMU alone": pc(iommu),
		"hugepages":      pc(`<memoryBacking><hugepages/></memoryBacking>`),
		"no devices":     `<domain type='kvm'>` + memory1G + `</domain>`,
		"hard_limit 0":   pc(locked, pci, `<memtune><hard_limit>0</hard_limit></memtune>`),
	} {
		if got, r := limitOf(t, xml); got != 0 {
			t.Errorf("%s: got %d, want none: %+v", name, got, r)
		}
	}
}

func TestHardLimit(t *testing.T) {
	for limit, want := range map[string]int64{
		`<hard_limit>2097152</hard_limit>`:       2 * gib,
		`<hard_limit unit='GiB'>3</hard_limit>`:  3 * gib,
		`<hard_limit unit='b'>1025</hard_limit>`: 2 * kib,
		// more bytes than libvirt's value for "no limit"
		`<hard_limit>9007199254740990</hard_limit>`: unlimited,
		// taken as absent: the next in order counts
		`<hard_limit>9007199254740991</hard_limit>`:              unlimited,
		`<soft_limit>1</soft_limit>`:                             unlimited,
		`<hard_limit unit='TiB'>8191</hard_limit>`:               8191 << 40,
		`<hard_limit unit='KB'> 1000 </hard_limit>`:              977 * kib,
		`<hard_limit unit='bytes'>9007199254740991</hard_limit>`: unlimited,
	} {
		if got, r := limitOf(t, pc(pci, locked, "<memtune>"+limit+"</memtune>")); got != want {
			t.Errorf("%s: got %d, want %d: %+v", limit, got, want, r)
		}
	}
}

const maxMemory = `<maxMemory slots='16' unit='GiB'>64</maxMemory>`

func cells(sizes ...string) string {
	text := "<cpu><numa>"
	for i, size := range sizes {
		text += fmt.Sprintf("<cell id='%d' cpus='%d' %s/>", i, i, size)
	}
	return text + "</numa></cpu>"
}

func module(model, size string) string {
	return fmt.Sprintf("<memory model='%s'><target>%s<node>0</node></target></memory>", model, size)
}

func TestMemory(t *testing.T) {
	virtioMem := module("virtio-mem", "<size unit='GiB'>8</size><block "+
		"unit='MiB'>2</block><requested unit='GiB'>1</requested>")
	for name, c := range map[string]struct {
		xml  string
		want int64
	}{
		"KiB":        {with(`<memory>2097152</memory>`), 2 * gib},
		"GiB":        {with(`<memory unit='GiB'>3</memory>`), 3 * gib},
		"one letter": {with(`<memory unit='g'>3</memory>`), 3 * gib},
		"bytes, rounded up to 1 MiB": {with(`<memory unit='bytes'>1073741825</memory>`),
			gib + mib},
		"powers of ten": {with(`<memory unit='GB'>1</memory>`), 954 * mib},
		"current memory does not count": {with(`<memory unit='GiB'>4</memory><currentMemory ` +
			`unit='GiB'>1</currentMemory>`), 4 * gib},
		"maximum memory does not count": {with(memory1G, maxMemory), gib},
		"cells": {
			with("", cells("memory='512' unit='MiB'", "memory='1048576'")), gib + 512*mib},
		"cells and not <memory>": {with(`<memory unit='GiB'>9</memory>`,
			cells("memory='2' unit='GiB'")), 2 * gib},
		"cells rounded up one by one": {with("", cells("memory='1'", "memory='1'")), 2 * mib},
		"virtio-mem at its full size": {with(`<memory unit='GiB'>4</memory>`, maxMemory,
			cells("memory='4' unit='GiB'"), virtioMem), 12 * gib},
		"<memory> has its devices": {with(`<memory unit='GiB'>12</memory>`, maxMemory, virtioMem),
			12 * gib},
		"live XML with both": {with(`<memory unit='GiB'>12</memory>`, maxMemory,
			cells("memory='4' unit='GiB'"), virtioMem), 12 * gib},
		"DIMMs": {with(memory1G, maxMemory, cells("memory='1' unit='GiB'"),
			module("dimm", "<size unit='MiB'>512</size>"),
			module("dimm", "<size unit='MiB'>256</size>")), gib + 768*mib},
		"devices rounded up to 2 MiB": {with(memory1G, maxMemory, cells("memory='1' unit='GiB'"),
			module("dimm", "<size unit='MiB'>3</size>")), gib + 4*mib},
		"NVDIMM and virtio-pmem": {with(memory1G, cells("memory='1' unit='GiB'"),
			module("nvdimm", "<size unit='MiB'>512</size>"),
			module("virtio-pmem", "<size unit='MiB'>512</size>")), 2 * gib},
	} {
		got, r := limitOf(t, strings.Replace(c.xml, "<devices>", "<devices>"+pci, 1))
		if want := c.want + gib; got != want {
			t.Errorf("%s: got %d, want %d: %+v", name, got, want, r)
		}
	}
}

func TestPSeries(t *testing.T) {
	const bridge = `<controller type='pci' index='0' model='pci-root'><model ` +
		`name='spapr-pci-host-bridge'/><target index='0'/></controller>`
	placed := strings.Replace(pci, "</hostdev>", "<address type='pci' domain='0' bus='1' "+
		"slot='1' function='0'/></hostdev>", 1)
	usb := `<controller type='usb' index='0' model='qemu-xhci'/>`
	for name, c := range map[string]struct {
		xml  string
		want int64
	}{
		"bridge in the XML":             {pseries(bridge, usb), 20 * mib},
		"three bridges":                 {pseries(bridge, bridge, bridge), 28 * mib},
		"maximum memory makes the hash": {pseries(maxMemory), 512*mib + 12*mib},
		"rounded up to 256 MiB": {guest("kvm", "ppc64", `<memory unit='MiB'>1025</memory>`),
			10*mib + 12*mib},
		"a device with its address": {pseries(bridge, bridge, placed), 24*mib + 4*gib},
		"an address to choose": {
			pseries(bridge, strings.Replace(pci, "</hostdev>", "<address type='pci'/></hostdev>",
				1)), 24*mib + 4*gib},
		"two without":              {pseries(bridge, pci, pci), 28*mib + 6*gib},
		"a mediated device":        {pseries(mdev), 20*mib + 2*gib},
		"NVMe":                     {pseries(nvme), 20*mib + 2*gib},
		"vDPA interface":           {pseries(vdpaNet), 20*mib + 2*gib},
		"vDPA disk does not count": {pseries(vdpaDisk), 20 * mib},
		"more memory than windows": {guest("kvm", "ppc64le", `<memory unit='GiB'>64</memory>`,
			mdev), 512*mib + 12*mib + 64*gib + 128*mib + 8*mib},
		"NVDIMM rounded down": {guest("kvm", "ppc64", memory1G, cells("memory='1' unit='GiB'"),
			module("nvdimm", "<size unit='KiB'>600000</size><label><size "+
				"unit='KiB'>128</size></label>")), (1048576+524288+128)/128*kib + 12*mib},
	} {
		if got, r := limitOf(t, c.xml); got != c.want {
			t.Errorf("%s: got %d, want %d: %+v", name, got, c.want, r)
		}
	}
}

func TestPSeriesWithNVLink2(t *testing.T) {
	def, err := domain.Parse([]byte(pseries(pci)))
	if err != nil {
		t.Fatal(err)
	}
	def.NVLink2 = true
	got, err := def.Limit()
	if want := 24*mib + gib + 2*256*gib + 8*mib; err != nil || got.Bytes != want {
		t.Errorf("got %+v, %v, want %d", got, err, want)
	}
}
