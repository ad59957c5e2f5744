package libvirt

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// Domain is a running domain in libvirt's records.
type Domain struct {
	Name string
	UUID string // in lower case, with dashes
	PID  int    // of QEMU, in the pid namespace of libvirt's daemon; > 0
}

// RunBy reports whether libvirt has started a process with these arguments for the domain.
// Call it for the process with the pid of a record: the process of another VM has another
// UUID in its arguments.
func (d Domain) RunBy(args []string) bool {
	at := slices.Index(args, "-uuid")
	return at >= 0 && at+1 < len(args) && args[at+1] == d.UUID
}

// ExcludedBy reports whether libvirt has started a process with these arguments for another domain.
// The UUID of d may be empty. libvirt names and numbers each domain in its arguments, so a command
// line without a name or without a UUID excludes none, and each occurrence of an option counts.
func (d Domain) ExcludedBy(args []string) bool {
	var named, numbered bool
	for i, arg := range args[:max(len(args)-1, 0)] {
		switch value := args[i+1]; arg {
		case "-name", "--name":
			named = true
			if name, ok := guestName(value); !ok || name == d.Name {
				return false
			}
		case "-uuid", "--uuid":
			numbered = true
			if id, err := uuid.Parse(value); err != nil || id.String() == d.UUID {
				return false
			}
		}
	}
	return named && numbered
}

// guestName returns the name in a value of QEMU's option -name, for example in
// guest=NAME,debug-threads=on. A comma in the name is doubled. ok is false without a name.
func guestName(value string) (name string, ok bool) {
	const comma = "\x00" // no argument has this byte
	fields := strings.Split(strings.ReplaceAll(value, ",,", comma), ",")
	for i, field := range fields {
		key, rest, isPair := strings.Cut(field, "=")
		switch {
		case isPair && key == "guest":
			name, ok = rest, true
		case !isPair && i == 0:
			name, ok = field, true
		}
	}
	return strings.ReplaceAll(name, comma, ","), ok
}

// IsDaemon reports whether these are the arguments of libvirt's daemon. Its children have them
// until they execute another file.
func IsDaemon(args []string) bool {
	return slices.ContainsFunc(args, func(arg string) bool { // an interpreter may come first
		name := filepath.Base(arg)
		return strings.HasPrefix(name, "libvirtd") || strings.HasPrefix(name, "virtqemud")
	})
}

// status is the used part of a record (virDomainObjFormat in libvirt's
// src/conf/domain_conf.c).
type status struct {
	Domain struct {
		Name     string `xml:"name"`
		UUID     string `xml:"uuid"`
		Metadata struct {
			Owners []owner `xml:"https://mooring.dev/domain owner"` // see [api.OwnerNamespace]
		} `xml:"metadata"`
	} `xml:"domain"`
}

// parse reads a record without its version. For a domain without a process, ok is false and err is
// nil.
func parse(r io.Reader) (d Record, ok bool, err error) {
	decoder := xml.NewDecoder(io.LimitReader(r, maxRecord))
	root, err := rootOf(decoder)
	if err != nil {
		return d, false, err
	}
	d.PID, err = pidOf(root)
	if err != nil || d.PID == 0 {
		return d, false, err
	}
	var s status
	if err := decoder.DecodeElement(&s, &root); err != nil {
		return d, false, err
	}
	id, err := uuid.Parse(strings.TrimSpace(s.Domain.UUID))
	if err != nil || s.Domain.Name == "" {
		return d, false, fmt.Errorf("name %q, uuid %q: want name and UUID of a domain",
			s.Domain.Name,
			s.Domain.UUID)
	}
	d.Name, d.UUID = s.Domain.Name, id.String()
	d.Owner = ownerOf(s.Domain.Metadata.Owners)
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

// pidOf returns the pid of a record, or 0 for a domain without a process.
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
