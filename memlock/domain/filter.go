package domain

import (
	"encoding/xml"
	"maps"
	"slices"
	"strings"
)

// Elements that a memory lock depends on, at the two upper levels of a domain. Below them every
// element passes, because neither gaps nor differences of libvirtxml there can prevent the
// computation. decodeRest reads the disks.
var (
	domainElements = []string{"memory", "maxMemory", "memtune", "memoryBacking", "os",
		"cpu", "devices", "iommufd"}
	deviceElements = []string{"hostdev", "interface", "iommu", "controller", "memory"}
)

// filter passes only these elements to libvirtxml.
type filter struct {
	in   *xml.Decoder
	path []string
	last string // path of the last passed element
	seen map[string]bool
}

// singles are elements of which libvirt reads the first, and libvirtxml the last.
var singles = []string{"domain/memory", "domain/maxMemory", "domain/memtune/hard_limit",
	"domain/os/type", "domain/cpu", "domain/cpu/numa", "domain/devices/memory/target",
	"domain/devices/memory/target/size", "domain/devices/memory/target/label",
	"domain/devices/memory/target/label/size"}

// memoryDevicePath is the path of a memory device, of which there may be several.
const memoryDevicePath = "domain/devices/memory"

// Token implements xml.TokenReader.
func (f *filter) Token() (xml.Token, error) {
	for {
		token, err := f.in.Token()
		switch t := token.(type) {
		case xml.StartElement:
			if t.Name.Space != "" || !f.includes(t.Name.Local) {
				if err := f.in.Skip(); err != nil {
					return nil, err
				}
				continue
			}
			f.path = append(f.path, t.Name.Local)
			f.last = strings.Join(f.path, "/")
			if f.repeats() {
				f.path = f.path[:len(f.path)-1]
				if err := f.in.Skip(); err != nil {
					return nil, err
				}
				continue
			}
			return withDefaults(t), err
		case xml.EndElement:
			f.path = f.path[:len(f.path)-1]
		}
		return token, err
	}
}

// repeats reports whether the element at f.last is a second one of its kind.
func (f *filter) repeats() bool {
	if f.last == memoryDevicePath {
		maps.DeleteFunc(f.seen, func(path string, _ bool) bool {
			return strings.HasPrefix(path, memoryDevicePath+"/")
		})
	}
	if !slices.Contains(singles, f.last) {
		return false
	}
	if f.seen == nil {
		f.seen = map[string]bool{}
	}
	repeated := f.seen[f.last]
	f.seen[f.last] = true
	return repeated
}

func (f *filter) includes(name string) bool {
	switch {
	case len(f.path) == 1:
		return slices.Contains(domainElements, name)
	case len(f.path) == 2 && f.path[1] == "devices":
		return slices.Contains(deviceElements, name)
	}
	return true
}

// withDefaults adds a default of libvirt to an element that libvirtxml lacks: a host device without
// a mode belongs to a subsystem.
func withDefaults(t xml.StartElement) xml.StartElement {
	isMode := func(a xml.Attr) bool { return a.Name.Local == "mode" }
	if t.Name.Local != "hostdev" || slices.ContainsFunc(t.Attr, isMode) {
		return t
	}
	mode := xml.Attr{Name: xml.Name{Local: "mode"}, Value: "subsystem"}
	t.Attr = append(slices.Clip(t.Attr), mode)
	return t
}
