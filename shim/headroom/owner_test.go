package headroom_test

import (
	"bytes"
	"encoding/xml"
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/shim/headroom"
)

// owned has the owners of a domain, and the rest of its metadata.
type owned struct {
	Name     string `xml:"name"`
	Metadata []struct {
		Owners []struct {
			Namespace string `xml:"namespace,attr"`
			Name      string `xml:"name,attr"`
			UID       string `xml:"uid,attr"`
		} `xml:"https://mooring.dev/domain owner"`
		Other []struct{} `xml:"http://example.org other"`
	} `xml:"metadata"`
}

// The owner replaces an earlier one, and nothing else changes.
func TestSetOwner(t *testing.T) {
	o := api.Owner{Namespace: "vms", Name: "vm-1", UID: "3f4c1f0e-8a63"}
	old := `<m:owner xmlns:m="` + api.OwnerNamespace + `" namespace="a" name="b" uid="c"/>`
	const other = `<o:other xmlns:o="http://example.org"/>`
	domain := func(metadata string) string {
		return "<domain type='kvm'>\n  <name>vm-1</name>\n  " + metadata + "<!-- kept -->\n</domain>\n"
	}
	for name, c := range map[string]struct {
		text   string
		others int
	}{
		"no metadata":     {domain(""), 0},
		"empty metadata":  {domain("<metadata/>"), 0},
		"other metadata":  {domain("<metadata>\n    " + other + "\n  </metadata>"), 1},
		"an earlier pod":  {domain("<metadata>" + old + other + "</metadata>"), 1},
		"two owners":      {domain("<metadata>" + old + other + old + "</metadata>"), 1},
		"one line":        {"<domain><name>vm-1</name></domain>", 0},
		"foreign element": {domain("<metadata>" + other + "</metadata>"), 1},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := headroom.SetOwner([]byte(c.text), o)
			if err != nil {
				t.Fatal(err)
			}
			var d owned
			if err := xml.Unmarshal(got, &d); err != nil {
				t.Fatal(err, string(got))
			}
			if len(d.Metadata) != 1 || len(d.Metadata[0].Owners) != 1 ||
				api.Owner(d.Metadata[0].Owners[0]) != o || d.Name != "vm-1" ||
				len(d.Metadata[0].Other) != c.others ||
				strings.Contains(c.text, "kept") != bytes.Contains(got, []byte("kept")) {
				t.Errorf("%s\n%+v", got, d)
			}
			if again, err := headroom.SetOwner(got, o); err != nil || !bytes.Equal(again, got) {
				t.Errorf("again: %v\n%s", err, again)
			}
		})
	}
}

func TestSetOwnerRefuses(t *testing.T) {
	good := api.Owner{Namespace: "vms", Name: "vm-1", UID: "1"}
	for name, c := range map[string]struct {
		text  string
		owner api.Owner
	}{
		"no owner": {"<domain><name>a</name></domain>", api.Owner{}},
		"hostile UID": {"<domain><name>a</name></domain>",
			api.Owner{Namespace: "a", Name: "a", UID: "'/>"}},
		"other root":   {"<network><name>a</name></network>", good},
		"no name":      {"<domain/>", good},
		"truncated":    {"<domain><name>a</name>", good},
		"two elements": {"<domain><name>a</name></domain><domain/>", good},
	} {
		if got, err := headroom.SetOwner([]byte(c.text), c.owner); err == nil {
			t.Errorf("%s: %s", name, got)
		}
	}
}
