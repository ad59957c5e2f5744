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

// request is a definition that is asked for.
type request struct {
	VMI         *v1.VirtualMachineInstance `json:"vmi"`         // as its user writes it
	Emulated    bool                       `json:"emulated"`    // without KVM
	LiveUpdate  bool                       `json:"liveUpdate"`  // the cluster's rollout strategy
	CPUSet      []int                      `json:"cpuSet"`      // of the launcher's container
	HostDevices []string                   `json:"hostDevices"` // PCI addresses from device plugins

	// Defined is the inactive XML that libvirt has of the first definition, for the second.
	Defined string `json:"defined"`
}

// definition is a domain XML on its way to libvirt.
type definition struct {
	Asked    string `json:"asked"`    // what the hook sidecars are given
	Answered string `json:"answered"` // what libvirt is given
	Kept     string `json:"kept"`     // what virt-launcher reads of it
	Error    string `json:"error"`
}

// launcher makes the definitions that virt-launcher would, for requests on standard
// input until its end. Its argument, where there is one, is the folder of the sockets
// of one hook sidecar.
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

// collect has the manager, which is KubeVirt's own, look in another folder than that of
// virt-launcher's container.
func collect(manager hooks.Manager, dir string) error {
	at := reflect.ValueOf(manager).Elem().FieldByName("hookSocketSharedDirectory")
	*(*string)(unsafe.Pointer(at.UnsafeAddr())) = dir
	return manager.Collect(1, time.Minute)
}

// define goes as SetDomainSpecStrWithHooks, up to libvirt.
func define(manager hooks.Manager, r request) (d definition, err error) {
	spec, err := convert(r)
	if err != nil {
		return d, err
	}
	if spec, err = withPorts(r, spec); err != nil {
		return d, err
	}
	if d.Asked, err = marshal(spec); err != nil {
		return d, err
	}
	if d.Answered, err = manager.OnDefineDomain(spec, r.VMI); err != nil {
		return d, err
	}
	read := &api.DomainSpec{}
	if err = xml.Unmarshal([]byte(d.Answered), read); err != nil {
		return d, fmt.Errorf("reading the sidecar's answer: %w", err)
	}
	d.Kept, err = marshal(read)
	return d, err
}

func marshal(spec *api.DomainSpec) (string, error) {
	text, err := xml.MarshalIndent(spec, "", "\t")
	return string(text), err
}

// withPorts goes as WithNetworkIfacesResources: virt-launcher defines the domain with
// interfaces that take up ports, and again without them, but with the devices as
// libvirt has placed them. PCI devices on the root complex are defined once.
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
