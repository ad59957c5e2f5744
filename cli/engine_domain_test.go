package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/memlock"
	"github.com/mooring-vm/mooring/memlock/domain"
	"github.com/mooring-vm/mooring/shim/resize"
)

// domainCase is one domain. Sizes are in KiB; 0 is none.
type domainCase struct {
	memory, maxMemory, hardLimit uint64

	pci, mediated, vdpa, nvme int
	vdpaDisks, chained        int    // vDPA disks, and files over an NVMe controller
	model                     string // of mediated devices
	group                     bool   // another program opened the iommufd of PCI devices
	iommu, locked, sev        bool
	pool                      bool // an interface takes a PCI device from a network's pool
	started                   bool // the XML shows the device from the pool
	argument                  bool // an argument of QEMU passes a device
}

func drawDomainCase(t *rapid.T) domainCase {
	few := func(name string) int { return rapid.IntRange(0, 2).Draw(t, name) }
	flag := func(name string) bool { return rapid.IntRange(0, 3).Draw(t, name) == 0 }
	c := domainCase{
		memory: rapid.Uint64Range(1, 1<<30).Draw(t, "memory"),
		pci:    few("pci"), mediated: few("mediated"), vdpa: few("vdpa"), nvme: few("nvme"),
		vdpaDisks: few("vdpa disks"), chained: few("chained"), group: flag("group"),
		model: rapid.SampledFrom([]string{"vfio-pci", "vfio-ccw", "vfio-ap"}).Draw(t, "model"),
		iommu: flag("iommu"), locked: flag("locked"), sev: flag("sev"), pool: flag("pool"),
		started: flag("started"), argument: flag("argument"),
	}
	if flag("maximum") {
		c.maxMemory = rapid.Uint64Range(c.memory+1<<10, 1<<31).Draw(t, "maxMemory")
	}
	if flag("limited") {
		c.hardLimit = rapid.Uint64Range(1, 1<<31).Draw(t, "hardLimit")
	}
	return c
}

func (c domainCase) xml() string {
	var b strings.Builder
	add := func(n int, format string, args ...any) {
		for range n {
			fmt.Fprintf(&b, format, args...)
		}
	}
	once := map[bool]int{true: 1}
	add(1, "<domain type='kvm' xmlns:q='http://libvirt.org/schemas/domain/qemu/1.0'>")
	add(1, "<memory>%d</memory>", c.memory)
	add(once[c.maxMemory > 0], "<maxMemory slots='0'>%d</maxMemory>", c.maxMemory)
	add(once[c.hardLimit > 0], "<memtune><hard_limit>%d</hard_limit></memtune>", c.hardLimit)
	add(once[c.locked], "<memoryBacking><locked/></memoryBacking>")
	add(once[c.sev], "<launchSecurity type='sev'><policy>0x3</policy></launchSecurity>")
	add(once[c.group], "<iommufd enabled='yes' fdgroup='iommu'/>")
	add(1, "<devices>")
	add(c.pci, "<hostdev mode='subsystem' type='pci'><source><address domain='0' bus='1' "+
		"slot='0' function='0'/></source></hostdev>")
	add(c.mediated, "<hostdev mode='subsystem' type='mdev' model='%s'><source>"+
		"<address uuid='c2177883-f1bb-47f0-914d-32a22e3a8804'/></source></hostdev>", c.model)
	add(c.vdpa, "<interface type='vdpa'><source dev='/dev/vhost-vdpa-0'/></interface>")
	add(c.nvme, "<disk type='nvme' device='disk'><source type='pci' namespace='1'/></disk>")
	add(c.vdpaDisks, "<disk type='vhostvdpa'><source dev='/dev/vhost-vdpa-1'/></disk>")
	add(c.chained, "<disk type='file'><source file='/a'/><backingStore type='nvme'><source "+
		"type='pci' namespace='1'/></backingStore></disk>")
	add(once[c.iommu], "<iommu model='intel'/>")
	actual := ""
	if c.started {
		actual = "<actual type='hostdev'><source><address type='pci' bus='2'/></source></actual>"
	}
	add(once[c.pool], "<interface type='network'><source network='pool'/>%s</interface>", actual)
	add(1, "</devices>")
	add(once[c.argument], "<q:commandline><q:arg value='-device'/>"+
		"<q:arg value='vfio-pci,host=03:00.0'/></q:commandline>")
	add(1, "</domain>")
	return b.String()
}

// hidden reports whether a device or a need of the domain is missing from libvirt's formula.
func (c domainCase) hidden() bool {
	return !c.decided() && (c.sev || c.argument || c.pool && !c.started || c.group && c.pci > 0)
}

// decided reports whether the domain has its limit in the XML.
func (c domainCase) decided() bool { return c.hardLimit > 0 || c.locked }

// annotations are the requests of an author with this domain and all its devices.
func (c domainCase) annotations() map[string]string {
	all := map[string]string{api.LauncherKey: "compute", api.OverheadKey: "0"}
	guest, devices := max(c.memory, c.maxMemory), api.Devices{VFIO: c.pci + c.mediated,
		VDPA: c.vdpa + c.vdpaDisks, NVMe: c.nvme + c.chained, IOMMU: c.iommu}
	if c.pool {
		devices.VFIO++
	}
	switch {
	case c.hardLimit > 0:
		guest, devices = c.hardLimit, api.Devices{}
		all[api.RequiresLockKey] = "true"
	case c.locked:
		all[api.RequiresLockKey], all[api.ValueKey] = "true", api.Unlimited
	}
	all[api.GuestMemoryKey] = fmt.Sprint(guest * domain.KiB)
	if devices.Any() {
		all[api.DevicesKey] = devices.String()
	}
	return all
}

// answer is the answer of `mooring memlock --domain`, also beside a VMI.
func (c domainCase) answer(t *rapid.T, dir string, args ...string) memlockJSON {
	file := filepath.Join(dir, "domain.xml")
	if err := os.WriteFile(file, []byte(c.xml()), 0o600); err != nil {
		t.Fatal(err)
	}
	return answerOf(t, nil, append([]string{"--domain", file}, args...)...)
}

// lock returns the answer in the agent's form. Empty: none.
func (a memlockJSON) lock() string {
	switch {
	case a.Unlimited:
		return api.Unlimited
	case a.LimitBytes == nil:
		return ""
	}
	return resource.NewQuantity(*a.LimitBytes, resource.BinarySI).String()
}

// For any domain, the CLI, the sidecar and the agent give the same number, and the CLI says that it
// is unknown if a device may be missing.
func TestOneEngineForDomains(t *testing.T) {
	p, err := policy.Parse([]byte(strings.Replace(anyLock, "max:", "unlimited: true, max:", 1)))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		c := drawDomainCase(t)
		answer := c.answer(t, dir)
		if unknown := answer.Verdict == memlock.VerdictUnknown; unknown != c.hidden() {
			t.Fatalf("verdict %s (%q), hidden: %t\n%s", answer.Verdict, answer.Unknown,
				c.hidden(), c.xml())
		}
		if got := sidecarLock(t, c.xml()); got != answer.lock() {
			t.Fatalf("CLI: %q, sidecar: %q\n%s", answer.lock(), got, c.xml())
		}
		if c.hidden() {
			return
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "vm",
			Annotations: c.annotations()}}
		pod.Spec.Containers = []corev1.Container{{Name: "compute",
			Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{
				corev1.ResourceMemory: resource.MustParse("1Gi")}}}}
		if lock, explained := agentLock(t, p, pod); lock != answer.lock() {
			t.Fatalf("CLI: %q (%+v)\nagent: %q (%+v)\n%s", answer.lock(), answer.Terms, lock,
				explained.Settings, c.xml())
		}
	})
}

// sidecarLock is the requirement that the sidecar computes for the largest form of the domain.
func sidecarLock(t *rapid.T, xml string) string {
	def, err := domain.Parse([]byte(xml))
	if err != nil {
		t.Fatal(err)
	}
	required, err := resize.Observed{Definition: def.Full()}.RequiredLock()
	switch {
	case err != nil:
		t.Fatal(err)
	case required == resize.NoLimit:
		return api.Unlimited
	case required == 0:
		return ""
	}
	return resource.NewQuantity(int64(required), resource.BinarySI).String()
}

// Before its start a domain shows less. The answer is then unknown, and not above the answer for
// the running domain.
func TestLessOfADomainIsUnknown(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		c := drawDomainCase(t)
		c.pool, c.started = true, true
		full := c.answer(t, dir)
		c.started = false
		less := c.answer(t, dir)
		known := less.Verdict != memlock.VerdictUnknown
		if known && !c.decided() {
			t.Fatalf("verdict %s, and the device of the pool is missing\n%s", less.Verdict, c.xml())
		}
		if !full.covers(less) {
			t.Fatalf("limit %q, for the running domain %q\n%s", less.lock(), full.lock(), c.xml())
		}
	})
}

// covers reports whether the limit of a is not smaller.
func (a memlockJSON) covers(b memlockJSON) bool {
	switch {
	case b.LimitBytes == nil || a.Unlimited:
		return true
	case a.LimitBytes == nil || b.Unlimited:
		return false
	}
	return *a.LimitBytes >= *b.LimitBytes
}

// Without the domain that KubeVirt makes of a VMI, the answer for the VMI is unknown or not
// smaller.
func TestLessThanVMIAndDomain(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		c := drawEngineCase(t)
		text, err := json.Marshal(c.vmi)
		if err != nil {
			t.Fatal(err)
		}
		args := []string{"--vmi", "-", "--kubevirt-version", c.version}
		less := answerOf(t, text, args...)
		file := filepath.Join(dir, "domain.xml")
		if err := os.WriteFile(file, []byte(c.domain().xml()), 0o600); err != nil {
			t.Fatal(err)
		}
		full := answerOf(t, text, append(args, "--domain", file)...)
		if full.Verdict == memlock.VerdictUnknown {
			t.Fatalf("verdict %s (%q) with every input", full.Verdict, full.Unknown)
		}
		if less.Verdict != memlock.VerdictUnknown && !less.covers(full) {
			t.Fatalf("VMI: %q (%+v)\nand domain: %q (%+v)\n%s\n%s", less.lock(), less.Terms,
				full.lock(), full.Terms, text, c.domain().xml())
		}
	})
}

// domain returns the domain that KubeVirt makes of the VMI. The binding plugin adds a vDPA device.
func (c engineCase) domain() domainCase {
	d := c.vmi.Spec.Domain
	kib := func(q *resource.Quantity) uint64 { return uint64(q.Value()+1023) / 1024 }
	out := domainCase{memory: kib(d.Memory.Guest), pci: len(d.Devices.HostDevices),
		mediated: len(d.Devices.GPUs), model: "vfio-pci", sev: d.LaunchSecurity != nil}
	if d.Memory.MaxGuest != nil {
		out.maxMemory = max(kib(d.Memory.MaxGuest), out.memory+1<<10)
	}
	for _, i := range d.Devices.Interfaces {
		if i.Binding != nil {
			out.vdpa++
		}
	}
	return out
}
