package domain_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/memlock"
	"github.com/mooring-vm/mooring/memlock/domain"
)

const (
	kib = int64(1) << 10
	mib = int64(1) << 20
	gib = int64(1) << 30

	unlimited = 9007199254740991 // libvirt's value for "no limit"
)

// Pieces of domain XML.
const (
	memory1G  = `<memory unit='KiB'>1048576</memory>`
	hardLimit = `<memtune><hard_limit unit='KiB'>2097152</hard_limit></memtune>`
	locked    = `<memoryBacking><locked/></memoryBacking>`
	iommu     = `<iommu model='intel'><driver caching_mode='on'/></iommu>`
	pci       = `<hostdev mode='subsystem' type='pci' managed='yes'><source><address ` +
		`domain='0x0001' bus='0x01' slot='0x00' function='0x0'/></source></hostdev>`
	mdev = `<hostdev mode='subsystem' type='mdev' model='vfio-pci'><source><address ` +
		`uuid='c2177883-f1bb-47f0-914d-32a22e3a8804'/></source></hostdev>`
	nvme = `<disk type='nvme' device='disk'><source type='pci' managed='yes' ` +
		`namespace='1'><address domain='0x0003' bus='0x02' slot='0x00' ` +
		`function='0x0'/></source><target dev='vda' bus='virtio'/></disk>`
	vdpaNet  = `<interface type='vdpa'><source dev='/dev/vhost-vdpa-0'/></interface>`
	vdpaDisk = `<disk type='vhostvdpa' device='disk'><driver name='qemu' type='raw'/><source ` +
		`dev='/dev/vhost-vdpa-1'/><target dev='vdb' bus='virtio'/></disk>`
	sriov = `<interface type='hostdev' managed='yes'><source><address type='pci' domain='0' ` +
		`bus='0x3b' slot='0x02' function='0x1'/></source></interface>`
)

// guest returns a domain XML with the pieces, devices below <devices>.
func guest(virt, arch string, pieces ...string) string {
	var top, devices strings.Builder
	for _, p := range pieces {
		into := &top
		for _, device := range []string{"<hostdev", "<disk", "<interface", "<iommu ", "<controller",
			"<memory model"} {
			if strings.HasPrefix(p, device) {
				into = &devices
			}
		}
		into.WriteString(p)
	}
	return fmt.Sprintf("<domain type='%s'><name>g</name>%s<os><type "+
		"arch='%s'>hvm</type></os><devices>%s</devices></domain>",
		virt, &top, arch, &devices)
}

func pc(pieces ...string) string { return guest("kvm", "x86_64", append(pieces, memory1G)...) }

// with returns pc with memory other than 1 GiB.
func with(memory string, pieces ...string) string {
	return guest("kvm", "x86_64", append(pieces, memory)...)
}

func pseries(pieces ...string) string {
	return guest("kvm", "ppc64le", append(pieces, memory1G)...)
}

// limitOf returns the limit in the form of libvirt's function: 0 for none.
func limitOf(t *testing.T, text string) (int64, memlock.Result) {
	t.Helper()
	def, err := domain.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	r, err := def.Limit()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if r.Reason == "" {
		t.Errorf("no reason: %+v", r)
	}
	if r.Unlimited {
		return unlimited, r
	}
	if total, err := memlock.Total(r.Terms); err != nil || total != r.Bytes ||
		r.Required != (total > 0) {
		t.Errorf("terms do not make the limit: %+v", r)
	}
	return r.Bytes, r
}
