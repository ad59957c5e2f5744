package vmi

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
)

// rawSpec holds the parts of a VirtualMachineInstanceSpec that Read checks before decoding:
// quantities, because their errors name no field, and types that ignore unknown fields.
type rawSpec struct {
	Networks []struct {
		Pod json.RawMessage `json:"pod"`
	} `json:"networks"`
	Domain struct {
		Devices struct {
			Interfaces []struct {
				DHCPOptions json.RawMessage `json:"dhcpOptions"`
			} `json:"interfaces"`
		} `json:"devices"`
		Resources struct {
			Requests map[string]json.RawMessage `json:"requests"`
			Limits   map[string]json.RawMessage `json:"limits"`
		} `json:"resources"`
		Memory struct {
			Guest            json.RawMessage `json:"guest"`
			MaxGuest         json.RawMessage `json:"maxGuest"`
			ReservedOverhead struct {
				AddedOverhead json.RawMessage `json:"addedOverhead"`
			} `json:"reservedOverhead"`
		} `json:"memory"`
	} `json:"domain"`
}

// rawAt returns the spec at path. It is empty for an object of another structure, for which the
// decoder returns an error.
func rawAt(object []byte, path []string) rawSpec {
	for _, name := range path {
		var fields map[string]json.RawMessage
		if json.Unmarshal(object, &fields) != nil {
			return rawSpec{}
		}
		object = fields[name]
	}
	var raw rawSpec
	if json.Unmarshal(object, &raw) != nil {
		return rawSpec{}
	}
	return raw
}

// checkQuantities returns an error for each malformed quantity.
func (r *rawSpec) checkQuantities(path string) error {
	var faults []error
	check := func(field string, raw json.RawMessage) {
		var q resource.Quantity
		if raw != nil && json.Unmarshal(raw, &q) != nil {
			faults = append(faults, fmt.Errorf(
				"%s.domain.%s: %s: want a quantity such as 4Gi, 500M or, of CPUs, 2 or 500m", path,
				field, raw))
		}
	}
	for _, list := range []struct {
		name string
		of   map[string]json.RawMessage
	}{{"requests", r.Domain.Resources.Requests}, {"limits", r.Domain.Resources.Limits}} {
		for _, name := range slices.Sorted(maps.Keys(list.of)) {
			check("resources."+list.name+"."+name, list.of[name])
		}
	}
	m := r.Domain.Memory
	check("memory.guest", m.Guest)
	check("memory.maxGuest", m.MaxGuest)
	check("memory.reservedOverhead.addedOverhead", m.ReservedOverhead.AddedOverhead)
	return errors.Join(faults...)
}

// checkLenient returns an error for unknown fields in types that ignore them.
func (r *rawSpec) checkLenient(path string) error {
	var faults []error
	for i, network := range r.Networks {
		if network.Pod != nil {
			at := fmt.Sprintf("%s.networks[%d].pod", path, i)
			faults = append(faults, decodeStrict(network.Pod, new(podNetwork), at))
		}
	}
	for i, device := range r.Domain.Devices.Interfaces {
		if device.DHCPOptions != nil {
			at := fmt.Sprintf("%s.domain.devices.interfaces[%d].dhcpOptions", path, i)
			faults = append(faults, decodeStrict(device.DHCPOptions, new(dhcpOptions), at))
		}
	}
	return errors.Join(faults...)
}
