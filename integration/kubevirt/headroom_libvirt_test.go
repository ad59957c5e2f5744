//go:build cgo && libvirt_dlopen

package kubevirttest

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	virtv1 "kubevirt.io/api/core/v1"
	libvirtgo "libvirt.org/go/libvirt"

	"github.com/mooring-vm/mooring/hack/kubevirt"
	"github.com/mooring-vm/mooring/shim/headroom"
	"github.com/mooring-vm/mooring/shim/hook"
	"github.com/mooring-vm/mooring/shim/virt"
	"github.com/mooring-vm/mooring/shim/virt/libvirt"
	"github.com/mooring-vm/mooring/shim/virt/libvirt/libvirttest"
)

const mib = 1 << 20

// TestLaunchedVMsGrow starts a guest from virt-launcher's definition after both sidecar calls, and
// grows it.
func TestLaunchedVMsGrow(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: boots a guest")
	}
	for _, device := range []headroom.Device{headroom.VirtioMem, headroom.DIMM} {
		t.Run(string(device), func(t *testing.T) {
			p := &launchedGuest{daemon: libvirttest.Start(t, false)}
			p.vm = p.daemon.LinuxVM(t)
			p.launch(t, headroom.Options{Memory: 1024, CPUs: 8, Device: device})
			p.growVCPUs(t)
			p.growMemory(t, device)
		})
	}
}

// TestLibvirtTakesLaunchedVMs defines the domains. libvirt checks the node's resources only at the
// start.
func TestLibvirtTakesLaunchedVMs(t *testing.T) {
	daemon := libvirttest.Start(t, false)
	l := Launch(t, hook.Config{Options: capacity()})
	for name, c := range launchedCases() {
		if c.refused != "" {
			continue // libvirt gets no definition
		}
		t.Run(name, func(t *testing.T) {
			c.request.VMI, c.request.Emulated = launchedVM(c.change), true
			if c.want.virtioMem == 0 && requiresSlots(t, daemon) {
				wantRefusedAlike(t, daemon, Define(t, l, c.request))
				return
			}
			var second kubevirt.Definition
			daemon.WithConnect(t, func(conn *libvirtgo.Connect) (err error) {
				first, err := conn.DomainDefineXML(Define(t, l, c.request).AfterHooks)
				if err != nil {
					return err
				}
				if c.request.Defined, err = first.GetXMLDesc(libvirtgo.DOMAIN_XML_INACTIVE); err !=
					nil {
					return err
				}
				second = Define(t, l, c.request)
				_, err = conn.DomainDefineXML(second.AfterHooks)
				return errors.Join(err, first.UndefineFlags(libvirtgo.DOMAIN_UNDEFINE_NVRAM))
			})
			c.check(t, second)
		})
	}
}

// requiresSlots reports whether this libvirt requires memory slots together with maxMemory.
// KubeVirt's own headroom has no slots. libvirt before 9.5 requires them, and launchers have newer
// ones.
func requiresSlots(t *testing.T, daemon *libvirttest.Daemon) (wants bool) {
	t.Helper()
	daemon.WithConnect(t, func(conn *libvirtgo.Connect) error {
		version, err := conn.GetLibVersion()
		wants = version < 9_005_000
		return err
	})
	return wants
}

// wantRefusedAlike expects libvirt to refuse KubeVirt's XML and the sidecar's XML for the same
// reason.
func wantRefusedAlike(t *testing.T, daemon *libvirttest.Daemon, d kubevirt.Definition) {
	t.Helper()
	daemon.WithConnect(t, func(conn *libvirtgo.Connect) error {
		for _, text := range []string{d.BeforeHooks, d.AfterHooks} {
			_, err := conn.DomainDefineXML(text)
			if err == nil || !strings.Contains(err.Error(), "both maximum memory size and memory "+
				"slot count must be specified") {
				t.Errorf("got %v for\n%s", err, text)
			}
		}
		return nil
	})
}

// launchedGuest is a VM started by KubeVirt on a node without KVM.
type launchedGuest struct {
	daemon *libvirttest.Daemon
	vm     libvirttest.VM
	domain virt.Domain
}

// launch repeats virt-launcher's steps. It defines the domain, defines it again from libvirt's
// result, and starts it.
func (p *launchedGuest) launch(t *testing.T, o headroom.Options) {
	t.Helper()
	l := Launch(t, hook.Config{Options: o})
	vmi := p.vmi()
	p.daemon.WithConnect(t, func(conn *libvirtgo.Connect) error {
		r := kubevirt.Request{VMI: vmi, Emulated: true}
		first, err := conn.DomainDefineXML(p.localDefinition(t, Define(t, l, r)))
		if err != nil {
			return err
		}
		if r.Defined, err = first.GetXMLDesc(libvirtgo.DOMAIN_XML_INACTIVE); err != nil {
			return err
		}
		second, err := conn.DomainDefineXML(p.localDefinition(t, Define(t, l, r)))
		if err != nil {
			return err
		}
		return second.Create()
	})
	if err := libvirt.StartEvents(); err != nil {
		t.Fatal(err)
	}
	c, err := libvirt.Open(t.Context(), p.daemon.URI, libvirt.Options{MaxBackoff: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	if p.domain, err = c.Domain(t.Context(), vmi.Namespace+"_"+vmi.Name); err != nil {
		t.Fatal(err)
	}
	s := p.await(t, "the guest answers", func(s virt.State) bool {
		return s.VCPUs.Online == s.VCPUs.Boot
	})
	if s.VCPUs.Plugged != 1 || s.VCPUs.Maximum != 8 || s.Memory.Boot != 256*mib ||
		s.Memory.Maximum != 1024*mib {
		t.Errorf("started with %+v and %+v", s.VCPUs, s.Memory)
	}
}

// vmi returns a VMI without disk and network, because the test machine has none.
func (p *launchedGuest) vmi() *virtv1.VirtualMachineInstance {
	return launchedVM(func(s *virtv1.VirtualMachineInstanceSpec) {
		guest, no := resource.MustParse("256Mi"), false
		s.Domain.Memory.Guest = &guest
		s.Domain.Devices.Disks, s.Volumes = nil, nil
		s.Domain.Devices.Interfaces, s.Networks, s.Domain.Devices.AutoattachPodInterface = nil, nil,
			&no
		s.Domain.Firmware.KernelBoot = &virtv1.KernelBoot{KernelArgs: p.vm.Arguments,
			Container: &virtv1.KernelBootContainer{
				Image: "registry.test/kernel", KernelPath: "/vmlinuz", InitrdPath: "/initrd",
			}}
	})
}

// localDefinition returns the definition with paths of this machine for the kernel, the sockets and
// the console log.
func (p *launchedGuest) localDefinition(t *testing.T, d kubevirt.Definition) string {
	t.Helper()
	if d.Error != "" {
		t.Fatalf("%s\n%s", d.Error, d.BeforeHooks)
	}
	return strings.NewReplacer(
		"/var/run/kubevirt-private/5d307ca9-b3ef-428c-8861-06e72d69f223/virt-serial0-log",
		p.vm.Console,
		"/var/run/kubevirt-private/5d307ca9-b3ef-428c-8861-06e72d69f223/virt-",
		p.daemon.Dir+"/virt-",
		"/var/run/kubevirt/container-disks/kernel-boot/vmlinuz", p.vm.Kernel,
		"/var/run/kubevirt/container-disks/kernel-boot/initrd", p.vm.Initrd,
	).Replace(d.AfterHooks)
}

func (p *launchedGuest) growVCPUs(t *testing.T) {
	t.Helper()
	if err := p.domain.SetVCPUs(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	p.await(t, "the guest uses two vCPUs", func(s virt.State) bool {
		return s.VCPUs.Plugged == 2 && s.VCPUs.Online == 2
	})
}

func (p *launchedGuest) growMemory(t *testing.T, device headroom.Device) {
	t.Helper()
	if device == headroom.DIMM {
		if err := p.domain.AttachDIMM(t.Context(), 0, 256*mib); err != nil {
			t.Fatal(err)
		}
		p.await(t, "there is a DIMM", func(s virt.State) bool { return len(s.Memory.Devices) == 1 })
		return
	}
	s := p.await(t, "there is a virtio-mem device",
		func(s virt.State) bool { return len(s.Memory.Devices) == 1 })
	if err := p.domain.RequestMemory(t.Context(), s.Memory.Devices[0].Alias, 256*mib); err != nil {
		t.Fatal(err)
	}
	p.await(t, "the guest has taken the memory", func(s virt.State) bool {
		return s.Memory.Devices[0].Current == 256*mib
	})
}

func (p *launchedGuest) await(
	t *testing.T, what string, done func(virt.State) bool,
) (s virt.State) {
	t.Helper()
	Eventually(t, what, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		var err error
		if s, err = p.domain.State(ctx); err != nil {
			t.Fatal(err)
		}
		return done(s)
	})
	return s
}
