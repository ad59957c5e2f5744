package libvirt

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// Domain is a running domain as libvirt's record has it.
type Domain struct {
	Name      string
	UUID      string // in lower case, with dashes
	PID       int    // of QEMU, in the pid namespace of libvirt's daemon; > 0
	Partition string // the cgroup that the domain's own is below, such as /machine; empty: libvirt's default
}

// Is reports whether the domain is the one that is declared: by its UUID, or by its
// name. What reads as a UUID is never taken for a name.
func (d Domain) Is(declared string) bool {
	if id, err := uuid.Parse(declared); err == nil && (len(declared) == 36 || len(declared) == 32) {
		return id.String() == d.UUID
	}
	return declared == d.Name
}

// RunBy reports whether a process with these arguments is one that libvirt has
// started for the domain. It is to be asked of a process whose pid a record has: a
// process of another VM has another UUID there.
func (d Domain) RunBy(args []string) bool {
	at := slices.Index(args, "-uuid")
	return at >= 0 && at+1 < len(args) && args[at+1] == d.UUID
}

// status is the part of a record that is looked at (virDomainObjFormat in libvirt's
// src/conf/domain_conf.c).
type status struct {
	Domain struct {
		Name     string `xml:"name"`
		UUID     string `xml:"uuid"`
		Resource struct {
			Partition string `xml:"partition"`
		} `xml:"resource"`
	} `xml:"domain"`
}

// parse reads a record. Where pid is not 0 and the record is about another, it is
// read no further than that, and is ok false without an error; so it is where the
// domain has no process yet.
func parse(r io.Reader, pid int) (d Domain, ok bool, err error) {
	decoder := xml.NewDecoder(io.LimitReader(r, maxRecord))
	root, err := rootOf(decoder)
	if err != nil {
		return d, false, err
	}
	d.PID, err = pidOf(root)
	if err != nil || d.PID == 0 || pid != 0 && pid != d.PID {
		return d, false, err
	}
	var s status
	if err := decoder.DecodeElement(&s, &root); err != nil {
		return d, false, err
	}
	id, err := uuid.Parse(strings.TrimSpace(s.Domain.UUID))
	if err != nil || s.Domain.Name == "" {
		return d, false, fmt.Errorf("name %q, uuid %q: want those of a domain", s.Domain.Name, s.Domain.UUID)
	}
	d.Name, d.UUID, d.Partition = s.Domain.Name, id.String(), strings.TrimSpace(s.Domain.Resource.Partition)
	return d, true, nil
}

func rootOf(decoder *xml.Decoder) (xml.StartElement, error) {
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return xml.StartElement{}, err
		}
		if root, ok := token.(xml.StartElement); ok {
			if root.Name.Local != "domstatus" {
				return root, fmt.Errorf("root element %q: want domstatus", root.Name.Local)
			}
			return root, nil
		}
	}
}

// pidOf returns the pid of a record, 0 for a domain that has no process yet.
func pidOf(root xml.StartElement) (int, error) {
	for _, a := range root.Attr {
		if a.Name.Local != "pid" {
			continue
		}
		pid, err := strconv.ParseInt(a.Value, 10, 32)
		if err != nil || pid < -1 {
			return 0, fmt.Errorf("pid %q: want a number", a.Value)
		}
		return int(max(pid, 0)), nil
	}
	return 0, errors.New("no pid")
}
