package domain

import (
	"encoding/xml"
	"slices"
	"strings"
)

// Elements that a memory lock depends on, at the two upper levels of a domain. In
// the others nothing that libvirtxml does not know, or knows in another way than
// libvirt, can keep a lock from being computed. Disks are read by decodeChains.
var (
	ofDomain  = []string{"memory", "maxMemory", "memtune", "memoryBacking", "os", "cpu", "devices"}
	ofDevices = []string{"hostdev", "interface", "iommu", "controller", "memory"}
)

// filter hands those elements to libvirtxml.
type filter struct {
	in   *xml.Decoder
	path []string
	last string // path of the last element that was handed over
}

// Token implements xml.TokenReader.
func (f *filter) Token() (xml.Token, error) {
	for {
		token, err := f.in.Token()
		switch t := token.(type) {
		case xml.StartElement:
			if t.Name.Space != "" || !f.wanted(t.Name.Local) {
				if err := f.in.Skip(); err != nil {
					return nil, err
				}
				continue
			}
			f.path = append(f.path, t.Name.Local)
			f.last = strings.Join(f.path, "/")
			return withDefaults(t), err
		case xml.EndElement:
			f.path = f.path[:len(f.path)-1]
		}
		return token, err
	}
}

func (f *filter) wanted(name string) bool {
	switch {
	case len(f.path) == 1:
		return slices.Contains(ofDomain, name)
	case len(f.path) == 2 && f.path[1] == "devices":
		return slices.Contains(ofDevices, name)
	}
	return true
}

// withDefaults writes out what libvirt takes as given and libvirtxml does not: a
// host device without a mode is one of a subsystem.
func withDefaults(t xml.StartElement) xml.StartElement {
	isMode := func(a xml.Attr) bool { return a.Name.Local == "mode" }
	if t.Name.Local != "hostdev" || slices.ContainsFunc(t.Attr, isMode) {
		return t
	}
	mode := xml.Attr{Name: xml.Name{Local: "mode"}, Value: "subsystem"}
	t.Attr = append(slices.Clip(t.Attr), mode)
	return t
}
