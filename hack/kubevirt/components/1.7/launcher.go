package main

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"time"
	"unsafe"

	"kubevirt.io/client-go/log"

	v1 "kubevirt.io/api/core/v1"

	"kubevirt.io/kubevirt/pkg/hooks"
	"kubevirt.io/kubevirt/pkg/virt-launcher/virtwrap/api"
)

// request describes the VM to define.
type request struct {
	VMI         *v1.VirtualMachineInstance `json:"vmi"`         // as written by the user
	Emulated    bool                       `json:"emulated"`    // without KVM
	LiveUpdate  bool                       `json:"liveUpdate"`  // the cluster's rollout strategy
	CPUSet      []int                      `json:"cpuSet"`      // of the launcher's container
	HostDevices []string                   `json:"hostDevices"` // PCI addresses from device plugins

	// Defined is libvirt's inactive XML of the first definition, for the second one.
	Defined string `json:"defined"`
}

// definition is a domain XML on its way to libvirt.
type definition struct {
	BeforeHooks string `json:"beforeHooks"` // for the hook sidecars
	AfterHooks  string `json:"afterHooks"`  // for libvirt: the sidecars' answer
	Parsed      string `json:"parsed"`      // the answer as virt-launcher parses it
	Error       string `json:"error"`
}

// launcher makes the definitions that virt-launcher would, for requests on standard input. Its
// optional argument is the directory with the socket of a hook sidecar.
func launcher() error {
	log.InitializeLogging("virt-launcher")
	manager := hooks.GetManager()
	if len(os.Args) > 1 {
		if err := collect(manager, os.Args[1]); err != nil {
			return err
		}
	}
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	for {
		var r request
		if err := in.Decode(&r); errors.Is(err, io.EOF) {
			return manager.Shutdown() // the VM has ended
		} else if err != nil {
			return err
		}
		d, err := define(manager, r)
		if err != nil {
			d.Error = err.Error()
		}
		if err := out.Encode(d); err != nil {
			return err
		}
	}
}

// collect makes KubeVirt's hook manager search another directory than that of virt-launcher's
// container.
func collect(manager hooks.Manager, dir string) error {
	at := reflect.ValueOf(manager).Elem().FieldByName("hookSocketSharedDirectory")
	*(*string)(unsafe.Pointer(at.UnsafeAddr())) = dir
	return manager.Collect(1, time.Minute)
}

// define follows SetDomainSpecStrWithHooks, up to libvirt.
func define(manager hooks.Manager, r request) (d definition, err error) {
	spec, err := convert(r)
	if err != nil {
		return d, err
	}
	if spec, err = withPorts(r, spec); err != nil {
		return d, err
	}
	if d.BeforeHooks, err = marshal(spec); err != nil {
		return d, err
	}
	if d.AfterHooks, err = manager.OnDefineDomain(spec, r.VMI); err != nil {
		return d, err
	}
	read := &api.DomainSpec{}
	if err = xml.Unmarshal([]byte(d.AfterHooks), read); err != nil {
		return d, fmt.Errorf("reading the sidecar's answer: %w", err)
	}
	d.Parsed, err = marshal(read)
	return d, err
}

func marshal(spec *api.DomainSpec) (string, error) {
	text, err := xml.MarshalIndent(spec, "", "\t")
	return string(text), err
}

// withPorts follows WithNetworkIfacesResources. virt-launcher defines the domain with interfaces
// that occupy ports, and again without them, with the other devices where libvirt placed them. A
// domain with all devices on the root complex is defined once.
func withPorts(r request, spec *api.DomainSpec) (*api.DomainSpec, error) {
	if r.VMI.Annotations[v1.PlacePCIDevicesOnRootComplex] == "true" {
		return spec, nil
	}
	if r.Defined == "" {
		const some = 3 // its hotplugMinRequiredFreePorts
		for i := range some {
			spec.Devices.Interfaces = append(spec.Devices.Interfaces, api.Interface{
				Type:   "ethernet",
				Model:  &api.Model{Type: "virtio-non-transitional"},
				Target: &api.InterfaceTarget{Device: fmt.Sprintf("placeholder-%d", i), Managed: "no"},
			})
		}
		return spec, nil
	}
	defined := &api.DomainSpec{}
	if err := xml.Unmarshal([]byte(r.Defined), defined); err != nil {
		return nil, fmt.Errorf("reading libvirt's definition: %w", err)
	}
	defined.Devices.Interfaces = spec.Devices.Interfaces
	defined.Devices.DeepCopyInto(&spec.Devices)
	return spec, nil
}
