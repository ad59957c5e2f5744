package headroom

import (
	"encoding/xml"
	"fmt"

	"github.com/mooring-vm/mooring/api"
)

// SetOwner names a pod in the metadata of a domain, and leaves all other bytes of its XML as they
// are. It replaces an earlier owner. libvirt keeps metadata in its record of the running domain, so
// the node's agent knows the owner without a pod and without libvirt.
//
// The errors are an invalid owner, and XML that is not a domain. text is not modified.
func SetOwner(text []byte, o api.Owner) ([]byte, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	root, err := parse(text)
	if err != nil {
		return nil, err
	}
	if root.name != "domain" || root.first("name") == nil {
		return nil, fmt.Errorf("domain XML: root element %q: want domain with a name", root.name)
	}
	d := &document{text: text, root: root}
	element := node{name: "mooring:owner", attrs: []string{"xmlns:mooring", api.OwnerNamespace,
		"namespace", o.Namespace, "name", o.Name, "uid", o.UID}}
	metadata := root.first("metadata")
	switch old := owners(metadata); {
	case metadata == nil:
		d.insertAfter(root.first("name"), node{name: "metadata", children: []node{element}})
	case len(old) == 0:
		d.appendChild(metadata, element)
	default:
		d.replace(span{old[0].start, old[0].end}, d.render(element, ""))
		for _, e := range old[1:] {
			d.replace(span{e.start, e.end}, "")
		}
	}
	return d.result(), nil
}

func owners(metadata *element) (found []*element) {
	if metadata == nil {
		return nil
	}
	for _, c := range metadata.children {
		if c.qualified == (xml.Name{Space: api.OwnerNamespace, Local: "owner"}) {
			found = append(found, c)
		}
	}
	return found
}
