package nodeconfig

import (
	"strings"

	"github.com/mooring-vm/mooring/deploy/containerd"
)

// dropInName is the file name of the drop-in. deploy/install.sh uses it, too.
const dropInName = "mooring.toml"

// addDropIn plans to write the drop-in.
func (n *Node) addDropIn(dir string) (change, error) {
	path := dir + "/" + dropInName
	before, err := n.read(path)
	after := containerd.DropIn
	return change{path: path, before: before, after: &after, foreign: !isDropIn(before)}, err
}

// removeDropIn plans to remove the drop-in, or to restore the replaced file.
func (n *Node) removeDropIn(dir string) (change, error) {
	path := dir + "/" + dropInName
	before, err := n.read(path)
	if err != nil {
		return change{}, err
	}
	c := change{path: path, before: before, after: before}
	if isDropIn(before) {
		c.after, err = n.read(path + backupSuffix)
		c.dropBackup = true
	}
	return c, err
}

// isDropIn reports whether Mooring wrote the file, perhaps an older release: by the first line.
func isDropIn(content *string) bool {
	first, _, _ := strings.Cut(containerd.DropIn, "\n")
	return content != nil && strings.HasPrefix(*content, first+"\n")
}
