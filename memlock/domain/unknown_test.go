package domain_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/memlock"
	"github.com/mooring-vm/mooring/memlock/domain"
)

// network is an interface of a libvirt network.
func network(pieces string) string {
	return "<interface type='network'>" + pieces + "</interface>"
}

const (
	inactive = `<source network='pool'/>`
	running  = `<source network='pool' portid='c2177883-f1bb-47f0-914d-32a22e3a8804' ` +
		`bridge='virbr0'/>`
	taken = `<actual type='hostdev' managed='yes'><source><address type='pci' domain='0x0000' ` +
		`bus='0x3b' slot='0x02' function='0x1'/></source></actual>`
	sev     = `<launchSecurity type='sev'><policy>0x3</policy></launchSecurity>`
	bridged = `<actual type='network'><source bridge='virbr0'/></actual>`
)

// Forms of <iommufd>.
const (
	iommufd      = `<iommufd enabled='yes'/>`
	iommufdGroup = `<iommufd enabled='yes' fdgroup='iommu'/>`
	noIOMMUFD    = `<iommufd enabled='no' fdgroup='iommu'/>`
)

// byDriver returns a host device with or without iommufd.
func byDriver(iommufd string) string {
	return strings.Replace(pci, "<source>", "<driver iommufd='"+iommufd+"'/><source>", 1)
}

// raw returns a domain with arguments of QEMU.
func raw(prefix string, arguments ...string) string {
	var list strings.Builder
	for _, a := range arguments {
		fmt.Fprintf(&list, "<%s:arg value='%s'/>", prefix, a)
	}
	const namespace = "http://libvirt.org/schemas/domain/qemu/1.0"
	text := strings.Replace(pc(), "<domain ", fmt.Sprintf("<domain xmlns:%s='%s' ", prefix,
		namespace), 1)
	return strings.Replace(text, "</domain>",
		fmt.Sprintf("<%s:commandline>%s</%[1]s:commandline></domain>", prefix, &list), 1)
}

// A device that the XML does not show makes the answer unknown.
func TestUnknown(t *testing.T) {
	for name, c := range map[string]struct {
		xml   string
		want  string // part of the reason; empty: the answer is known
		least int64
	}{
		"inactive network":       {pc(network(inactive)), `network "pool"`, 0},
		"and a device":           {pc(network(inactive), pci), `network "pool"`, 2 * gib},
		"running network":        {pc(network(running)), "", 0},
		"device of the network":  {pc(network(inactive + taken)), "", 2 * gib},
		"bridge of the network":  {pc(network(inactive + bridged)), "", 0},
		"hard_limit decides":     {pc(network(inactive), hardLimit), "", 2 * gib},
		"locked decides":         {pc(network(inactive), locked), "", unlimited},
		"pSeries":                {pseries(network(inactive)), `network "pool"`, 20 * mib},
		"VFIO":                   {raw("qemu", "-device", "vfio-pci,host=01:00.0"), "vfio-pci", 0},
		"another prefix":         {raw("q", "-device", "vfio-pci,host=01:00.0"), "vfio-pci", 0},
		"VFIO as JSON":           {raw("qemu", "-device", `{"driver":"vfio-pci"}`), "vfio-pci", 0},
		"vDPA":                   {raw("qemu", "-netdev", "vhost-vdpa,id=a"), "vhost-vdpa", 0},
		"vDPA device":            {raw("qemu", "-device", "vhost-vdpa-device-pci"), "vdpa", 0},
		"NVMe drive":             {raw("qemu", "-drive", "file=nvme://01:00.0/1"), "nvme:", 0},
		"NVMe block device":      {raw("qemu", "-blockdev", "driver=nvme,node-name=a"), "nvme", 0},
		"NVMe as JSON":           {raw("qemu", "-blockdev", `{"driver": "nvme"}`), "nvme", 0},
		"emulated NVMe":          {raw("qemu", "-device", "nvme,drive=a"), "", 0},
		"emulated NVMe, as JSON": {raw("qemu", "-device", `{"driver":"nvme"}`), "", 0},
		"iommufd of QEMU":        {raw("qemu", "-object", "iommufd,id=a"), "must cover them all", 0},
		"iommufd as JSON": {raw("qemu", "-object", `{"qom-type":"iommufd","id":"a"}`),
			"must cover them all", 0},
		"iommufd by descriptor": {raw("qemu", "-object", "iommufd,id=a,fd=9"), "may pin memory", 0},
		"device of an iommufd":  {raw("qemu", "-device", "vfio-pci,iommufd=a"), "may pin memory", 0},
		"iommufd of libvirt":    {pc(iommufd, pci), "", 2 * gib},
		"iommufd of a group":    {pc(iommufdGroup, pci), `group "iommu"`, 2 * gib},
		"switched off":          {pc(noIOMMUFD, pci), "", 2 * gib},
		"for one device":        {pc(noIOMMUFD, byDriver("yes")), `group "iommu"`, 2 * gib},
		"for other devices":     {pc(iommufdGroup, byDriver("no")), "", 2 * gib},
		"for no device":         {pc(iommufdGroup), "", 0},
		"group with hard_limit": {pc(iommufdGroup, pci, hardLimit), "", 2 * gib},
		"virtual IOMMU":         {raw("qemu", "-device", "intel-iommu"), "intel-iommu", 0},
		"Arm's IOMMU":           {raw("qemu", "-machine", "virt,iommu=smmuv3"), "smmuv3", 0},
		"IOMMU of virtio":       {raw("qemu", "-device", "virtio-net,iommu_platform=on"), "", 0},
		"locked memory":         {raw("qemu", "-overcommit", "mem-lock=on"), "mem-lock", 0},
		"old locked memory":     {raw("qemu", "-realtime", "mlock=on"), "mlock=on", 0},
		"unlocked memory":       {raw("qemu", "-overcommit", "mem-lock=off"), "", 0},
		"a file":                {raw("qemu", "-readconfig", "/etc/a"), "-readconfig", 0},
		"SEV":                   {pc(sev), "SEV pins", 0},
		"SEV and a device":      {pc(sev, pci), "SEV pins", 2 * gib},
		"SEV with a hard_limit": {pc(sev, hardLimit), "", 2 * gib},
		"SEV-SNP":               {pc(strings.Replace(sev, "sev", "sev-snp", 1)), "", 0},
		"another argument":      {raw("qemu", "-cpu", "host"), "", 0},
	} {
		got, r := limitOf(t, c.xml)
		if got != c.least {
			t.Errorf("%s: limit %d, want %d", name, got, c.least)
		}
		text := strings.Join(r.Unknown, "\n")
		if (text != "") != (c.want != "") || !strings.Contains(text, c.want) {
			t.Errorf("%s: unknown %q, want %q", name, text, c.want)
		}
		if (r.Verdict() == memlock.VerdictUnknown) != (c.want != "") {
			t.Errorf("%s: verdict %q", name, r.Verdict())
		}
	}
}

// Each missing input has its own reason.
func TestUnknownListsAll(t *testing.T) {
	def, err := domain.Parse([]byte(pc(network(inactive), network("<source network='b'/>"))))
	if err != nil {
		t.Fatal(err)
	}
	if r, err := def.Limit(); err != nil || len(r.Unknown) != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}
