package nodeconfig

import (
	"fmt"
	"strings"

	"github.com/mooring-vm/mooring/deploy/containerd"
)

// The block holds Mooring's table in a template. The newline at its start keeps a template without
// one at the end unchanged.
const (
	blockStart = "\n# Begin of Mooring's setting: `mooring node configure --undo` removes it.\n"
	blockEnd   = "# End of Mooring's setting.\n"
)

// baseTemplate includes the configuration of k3s or RKE2 for nodes without a template.
const baseTemplate = `{{ template "base" . }}` + "\n"

// withBlock returns the template with the current block.
func withBlock(template string) string {
	return withoutBlock(template) + blockStart + table() + blockEnd
}

// withoutBlock returns the template without the block, if there is one.
func withoutBlock(template string) string {
	start := strings.LastIndex(template, blockStart)
	if start < 0 {
		return template
	}
	_, rest, found := strings.Cut(template[start:], blockEnd)
	if !found {
		return template
	}
	return template[:start] + rest
}

// table returns the drop-in from its first table on. A template has a version of its own.
func table() string {
	return containerd.DropIn[strings.Index(containerd.DropIn, "\n[")+1:]
}

// template returns the path of the template in use, or of the one to create.
func (n *Node) template(f flavour) (string, error) {
	for _, path := range f.templates {
		found, err := n.exists(path)
		if found || err != nil {
			return path, err
		}
	}
	return f.templates[0], nil
}

// addToTemplate plans to add the block to the template.
func (n *Node) addToTemplate(f flavour) (change, error) {
	path, err := n.template(f)
	if err != nil {
		return change{}, err
	}
	before, err := n.read(path)
	if err != nil {
		return change{}, err
	}
	own := baseTemplate
	if before != nil {
		own = withoutBlock(*before)
	}
	if strings.Contains(own, "default_validator") {
		return change{}, fmt.Errorf("%s already has a table default_validator: set enable = true "+
			"in it, or remove it", path)
	}
	after := withBlock(own)
	// A template with a block was created by Mooring, or has a backup.
	return change{path: path, before: before, after: &after, foreign: own == text(before)}, nil
}

// removeFromTemplate plans to remove the block. Later changes of the template stay. A template
// created by Mooring disappears.
func (n *Node) removeFromTemplate(path string) (change, error) {
	before, err := n.read(path)
	if err != nil || before == nil {
		return change{path: path}, err
	}
	backup, err := n.read(path + backupSuffix)
	if err != nil {
		return change{}, err
	}
	own := withoutBlock(*before)
	c := change{path: path, before: before, after: &own, dropBackup: true}
	if own != *before && own == baseTemplate && backup == nil {
		c.after = nil
	}
	return c, nil
}
