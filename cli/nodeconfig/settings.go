package nodeconfig

import (
	"errors"
	"strings"
)

// Settings returns the paths of the files with the setting on a node of any flavour, and of the
// backups of files that it replaced. After errors it returns the paths that it could read.
func (n *Node) Settings() (paths []string, err error) {
	add := func(path string, has func(text string) bool) {
		text, readErr := n.read(path)
		err = errors.Join(err, readErr)
		if text != nil && has(*text) {
			paths = append(paths, path)
		}
	}
	always := func(string) bool { return true }
	for _, f := range flavours() {
		if f.name == "kind" { // has the files of kubeadm
			continue
		}
		for _, dir := range f.dropIns {
			add(dir+"/"+dropInName, always)
			add(dir+"/"+dropInName+backupSuffix, always)
		}
		for _, path := range f.templates {
			add(path, func(text string) bool { return strings.Contains(text, blockStart) })
			add(path+backupSuffix, always)
		}
	}
	return paths, err
}
