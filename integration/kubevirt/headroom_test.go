package kubevirttest

import (
	"cmp"
	"encoding/xml"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	virtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/hack/kubevirt"
	"github.com/mooring-vm/mooring/shim/headroom"
	"github.com/mooring-vm/mooring/shim/hook"
)

// capacity is the headroom set by the sidecar in these tests.
func capacity() headroom.Options { return headroom.Options{Memory: 4096, CPUs: 8} }

// launchedVM returns a VM with the usual devices.
func launchedVM(change func(*virtv1.VirtualMachineInstanceSpec)) *virtv1.VirtualMachineInstance {
	vmi := NewVMI("vms", "db", Size{Cores: 1, Memory: "1Gi"})
	vmi.UID = "5d307ca9-b3ef-428c-8861-06e72d69f223"
	vmi.Spec.Domain.Firmware = &virtv1.Firmware{UUID: vmi.UID}
	if change != nil {
		change(&vmi.Spec)
	}
	return vmi
}

// headroomSize is the current and maximum size of a domain: MiB and vCPUs.
type headroomSize struct {
	vcpus, maxVCPUs   uint
	memory, maxMemory uint
	virtioMem         uint // block size in MiB
}

// grownTo is the expected headroom of a 1 GiB VM.
func grownTo(vcpus uint) headroomSize {
	return headroomSize{vcpus: vcpus, maxVCPUs: 8, memory: 1024, maxMemory: 4096, virtioMem: 2}
}

type launchedCase struct {
	change    func(*virtv1.VirtualMachineInstanceSpec)
	request   kubevirt.Request
	want      headroomSize
	unchanged bool   // the sidecar keeps KubeVirt's XML byte for byte
	refused   string // part of the reason
}

func launchedCases() map[string]launchedCase {
	type spec = *virtv1.VirtualMachineInstanceSpec
	cpu := func(c virtv1.CPU) func(spec) { return func(s spec) { s.Domain.CPU = &c } }
	hugepages := func(size string) func(spec) {
		return func(s spec) { s.Domain.Memory.Hugepages = &virtv1.Hugepages{PageSize: size} }
	}
	pinned := func(s spec) { s.Domain.CPU = &virtv1.CPU{Cores: 2, DedicatedCPUPlacement: true} }
	four := kubevirt.Request{CPUSet: []int{2, 3, 4, 5}}
	return map[string]launchedCase{
		"plain":    {want: grownTo(1)},
		"emulated": {request: kubevirt.Request{Emulated: true}, want: grownTo(1)},
		"topology": {change: cpu(virtv1.CPU{Sockets: 2, Cores: 1, Threads: 2}), want: grownTo(4)},
		"sockets of three": {change: cpu(virtv1.CPU{Sockets: 1, Cores: 3, Threads: 1}),
			want: headroomSize{vcpus: 3, maxVCPUs: 6, memory: 1024, maxMemory: 4096, virtioMem: 2}},
		"live update": {change: cpu(virtv1.CPU{Sockets: 1}),
			request: kubevirt.Request{LiveUpdate: true}, unchanged: true,
			want: headroomSize{vcpus: 1, maxVCPUs: 4, memory: 1024, maxMemory: 4096}},
		"live update, cores alone": {request: kubevirt.Request{LiveUpdate: true},
			want: headroomSize{vcpus: 1, maxVCPUs: 8, memory: 1024, maxMemory: 4096}},
		"maxGuest and maxSockets": {unchanged: true, want: headroomSize{vcpus: 1, maxVCPUs: 2,
			memory: 1024, maxMemory: 2048}, change: func(s spec) {
			most := resource.MustParse("2Gi")
			s.Domain.CPU.MaxSockets, s.Domain.Memory.MaxGuest = 2, &most
		}},
		"maxSockets alone": {change: func(s spec) { s.Domain.CPU.MaxSockets = 2 },
			want: headroomSize{vcpus: 1, maxVCPUs: 2, memory: 1024, maxMemory: 4096, virtioMem: 2}},
		"huge pages": {change: hugepages("2Mi"), want: grownTo(1)},
		"gigantic pages": {change: hugepages("1Gi"), want: headroomSize{vcpus: 1, maxVCPUs: 8,
			memory: 1024, maxMemory: 4096, virtioMem: 1024}},
		"dedicated CPUs": {change: pinned, request: four, want: grownTo(2)},
		"NUMA passthrough": {request: four, want: grownTo(2), change: func(s spec) {
			hugepages("2Mi")(s)
			pinned(s)
			s.Domain.CPU.NUMA = &virtv1.NUMA{
				GuestMappingPassthrough: &virtv1.NUMAGuestMappingPassthrough{}}
		}},
		"real time": {request: four, refused: "real-time", change: func(s spec) {
			hugepages("2Mi")(s)
			pinned(s)
			s.Domain.CPU.NUMA = &virtv1.NUMA{
				GuestMappingPassthrough: &virtv1.NUMAGuestMappingPassthrough{}}
			s.Domain.CPU.Realtime = &virtv1.Realtime{}
		}},
		"host devices": {request: kubevirt.Request{HostDevices: []string{"0000:3b:02.1",
			"0000:3b:02.2"}}, want: grownTo(1)},
		"virtiofs": {want: grownTo(1), change: func(s spec) {
			s.Domain.Devices.Filesystems = []virtv1.Filesystem{
				{Name: "root", Virtiofs: &virtv1.FilesystemVirtiofs{}}}
		}},
		"UEFI": {want: grownTo(1), change: func(s spec) {
			on := true
			s.Domain.Features = &virtv1.Features{SMM: &virtv1.FeatureState{Enabled: &on}}
			s.Domain.Firmware.Bootloader = &virtv1.Bootloader{EFI: &virtv1.EFI{SecureBoot: &on}}
		}},
		"arm64": {change: func(s spec) { s.Architecture = "arm64" },
			refused: `os/type arch "aarch64": want x86_64`},
		"SEV": {refused: "launchSecurity: ", change: func(s spec) {
			s.Domain.LaunchSecurity = &virtv1.LaunchSecurity{SEV: &virtv1.SEV{}}
		}},
	}
}

// TestLaunchedVMsGetHeadroom runs KubeVirt's own code: it makes the definition, calls the sidecar
// and parses the answer. It does this twice, like virt-launcher.
func TestLaunchedVMsGetHeadroom(t *testing.T) {
	l := Launch(t, hook.Config{Options: capacity()})
	for name, c := range launchedCases() {
		t.Run(name, func(t *testing.T) {
			c.request.VMI = launchedVM(c.change)
			first := Define(t, l, c.request)
			c.check(t, first)
			if c.refused != "" {
				return
			}
			c.request.Defined = first.AfterHooks
			second := Define(t, l, c.request)
			if c.want.virtioMem > 0 && !strings.Contains(second.BeforeHooks, "<memory model") {
				t.Fatalf("the second definition is without the first one's memory device\n%s",
					second.BeforeHooks)
			}
			c.check(t, second)
		})
	}
}

// TestLaunchersSpeakWithTheSidecar uses each version of the protocol. Only the newest one ends the
// sidecar, checked by Launch.
func TestLaunchersSpeakWithTheSidecar(t *testing.T) {
	for _, version := range []string{"v1alpha1", "v1alpha2", "v1alpha3"} {
		t.Run(version, func(t *testing.T) {
			l := Launch(t, hook.Config{Version: version, Options: capacity()})
			plain := launchedCase{want: grownTo(1)}
			plain.check(t, Define(t, l, kubevirt.Request{VMI: launchedVM(nil)}))
		})
	}
}

func (c launchedCase) check(t *testing.T, d kubevirt.Definition) {
	t.Helper()
	switch {
	case c.refused != "":
		if !strings.Contains(d.Error, c.refused) || d.AfterHooks != "" {
			t.Errorf("error %q, want one with %q\n%s", d.Error, c.refused, d.BeforeHooks)
		}
		return
	case d.Error != "":
		t.Fatalf("%s\n%s", d.Error, d.BeforeHooks)
	case c.unchanged && d.AfterHooks != d.BeforeHooks:
		t.Errorf("VM with headroom changed: %s", gocmp.Diff(d.BeforeHooks, d.AfterHooks))
	}
	if got := headroomOf(t, d.AfterHooks); got != c.want {
		t.Errorf("got %+v, want %+v\n%s", got, c.want, d.AfterHooks)
	}
	if diff := gocmp.Diff(otherLines(t, d.BeforeHooks), otherLines(t, d.AfterHooks)); diff != "" {
		t.Errorf("changes outside the headroom: %s", diff)
	}
	if again, err := headroom.Prepare([]byte(d.AfterHooks), capacity()); err != nil ||
		again.Changed {
		t.Errorf("second run differs: %v\n%s", err, again.XML)
	}
	// virt-launcher's struct has no field for vcpu's current attribute. It defines the XML text.
	for _, lost := range missing(headroomLines(t, d.AfterHooks), headroomLines(t, d.Parsed)) {
		if !strings.HasPrefix(lost, "/domain/vcpu@current=") {
			t.Errorf("virt-launcher does not read %s\n%s", lost, d.Parsed)
		}
	}
}

// quantity is a number with its unit.
type quantity struct {
	Unit  string `xml:"unit,attr"`
	Value uint   `xml:",chardata"`
}

func (s *quantity) mebibytes() uint {
	switch {
	case s == nil:
		return 0
	case s.Unit == "b":
		return s.Value >> 20
	}
	return s.Value >> 10
}

func headroomOf(t *testing.T, text string) headroomSize {
	t.Helper()
	var d struct {
		VCPU struct {
			Current uint `xml:"current,attr"`
			Most    uint `xml:",chardata"`
		} `xml:"vcpu"`
		Each []struct {
			Enabled string `xml:"enabled,attr"`
		} `xml:"vcpus>vcpu"`
		Memory  *quantity `xml:"memory"`
		Current *quantity `xml:"currentMemory"`
		Most    *quantity `xml:"maxMemory"`
		Block   *quantity `xml:"devices>memory>target>block"`
	}
	if err := xml.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	for _, v := range d.Each {
		if v.Enabled == "yes" {
			d.VCPU.Current++
		}
	}
	return headroomSize{
		vcpus: d.VCPU.Current, maxVCPUs: d.VCPU.Most, virtioMem: d.Block.mebibytes(),
		memory: cmp.Or(d.Current, d.Memory).mebibytes(), maxMemory: d.Most.mebibytes(),
	}
}
