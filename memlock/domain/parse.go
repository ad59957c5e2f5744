package domain

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"libvirt.org/go/libvirtxml"
)

// Parse reads a domain XML, as `virsh dumpxml` prints it or as libvirt takes it. It skips elements
// without influence on the lock. The errors are malformed XML and anything but one domain, with the
// line, and sizes that libvirt refuses, with the element.
func Parse(text []byte) (Definition, error) {
	d, err := decode(text)
	if err != nil {
		return Definition{}, fmt.Errorf("domain XML: %w", err)
	}
	def := Definition{
		Arch:   arch(d),
		Type:   d.Type,
		KVM:    d.Type == "kvm",
		Locked: d.MemoryBacking != nil && d.MemoryBacking.MemoryLocked != nil,
	}
	if def.HardLimit, err = hardLimit(d); err != nil {
		return Definition{}, fmt.Errorf("domain XML: %w", err)
	}
	if def.Memory, def.MaxMemory, err = sizes(d, isPPC64(def.Arch)); err != nil {
		return Definition{}, fmt.Errorf("domain XML: %w", err)
	}
	rest, err := decodeRest(text)
	if err != nil {
		return Definition{}, fmt.Errorf("domain XML: %w", err)
	}
	def.countDisks(rest.Disks)
	def.countDevices(d)
	def.countNetworks(rest.Interfaces)
	def.findArguments(rest.Arguments)
	def.SEV = rest.Security.Type == "sev"
	return def, nil
}

func decode(text []byte) (*libvirtxml.Domain, error) {
	var d libvirtxml.Domain
	f := &filter{in: newDecoder(text)}
	if err := xml.NewTokenDecoder(f).Decode(&d); err != nil {
		return nil, f.locate(err)
	}
	f.last = ""
	if err := atEnd(f.in); err != nil {
		return nil, f.locate(err)
	}
	return &d, nil
}

func newDecoder(text []byte) *xml.Decoder {
	in := xml.NewDecoder(bytes.NewReader(text))
	in.CharsetReader = func(charset string, r io.Reader) (io.Reader, error) {
		if strings.EqualFold(charset, "us-ascii") {
			return r, nil
		}
		return nil, fmt.Errorf("encoding %q: want UTF-8, as libvirt writes it", charset)
	}
	return in
}

// locate adds the position in the text to an error.
func (f *filter) locate(err error) error {
	if syntax := (*xml.SyntaxError)(nil); errors.As(err, &syntax) {
		return err // contains the line
	}
	if errors.Is(err, io.EOF) {
		return errors.New("there is none: want one <domain> element")
	}
	line, _ := f.in.InputPos()
	if number, ok := errors.AsType[*strconv.NumError](err); ok {
		err = fmt.Errorf("%q: want a whole number that is not negative", number.Num)
	}
	if f.last != "" {
		err = fmt.Errorf("%s: %w", f.last, err)
	}
	return fmt.Errorf("line %d: %w", line, err)
}

// atEnd returns an error if anything but comments and white space follows.
func atEnd(in *xml.Decoder) error {
	for {
		token, err := in.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch t := token.(type) {
		case xml.StartElement:
			return fmt.Errorf("<%s> follows the domain: want one <domain> element", t.Name.Local)
		case xml.CharData:
			if len(bytes.TrimSpace(t)) > 0 {
				return fmt.Errorf("%q follows the domain: want one <domain> element", t)
			}
		}
	}
}

func arch(d *libvirtxml.Domain) string {
	if d.OS == nil || d.OS.Type == nil {
		return ""
	}
	return d.OS.Type.Arch
}

func hardLimit(d *libvirtxml.Domain) (*uint64, error) {
	if d.MemoryTune == nil || d.MemoryTune.HardLimit == nil {
		return nil, nil
	}
	limit := d.MemoryTune.HardLimit
	size, err := Kibibytes("memtune/hard_limit", limit.Value, limit.Unit)
	if err != nil || size >= unlimitedKiB {
		return nil, err // libvirt takes it as no limit
	}
	return &size, nil
}
