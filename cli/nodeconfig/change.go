package nodeconfig

import (
	"fmt"
	"strings"
)

// backupSuffix ends the file names of backups. No import pattern of containerd (*.toml) and no
// template name matches these names.
const backupSuffix = ".mooring-backup"

// change is a new content of one file. A nil content stands for no file.
type change struct {
	path          string
	before, after *string

	// foreign: another owner wrote before, so the file needs a backup.
	foreign bool
	// dropBackup removes the backup after the change.
	dropBackup bool
}

func (c change) isEmpty() bool {
	return text(c.before) == text(c.after) && (c.before == nil) == (c.after == nil)
}

func text(content *string) string {
	if content == nil {
		return ""
	}
	return *content
}

// backUp copies a foreign file once: an older backup stays. made reports a new backup.
func (n *Node) backUp(c change) (made bool, err error) {
	if !c.foreign || c.before == nil {
		return false, nil
	}
	exists, err := n.exists(c.path + backupSuffix)
	if err == nil && !exists {
		made, err = true, n.write(c.path+backupSuffix, *c.before, c.path)
	}
	if err != nil {
		return false, fmt.Errorf("back up %s: %w", c.path, err)
	}
	return made, nil
}

// apply writes the change.
func (n *Node) apply(c change) error {
	if err := n.put(c.path, c.after); err != nil {
		return fmt.Errorf("write %s: %w", c.path, err)
	}
	if !c.dropBackup {
		return nil
	}
	if err := n.remove(c.path + backupSuffix); err != nil {
		return fmt.Errorf("remove the backup of %s: %w", c.path, err)
	}
	return nil
}

// revert restores the content before the change, and removes a backup of this run.
func (n *Node) revert(c change, madeBackup bool) error {
	err := n.put(c.path, c.before)
	if err == nil && madeBackup {
		err = n.remove(c.path + backupSuffix)
	}
	if err != nil {
		return fmt.Errorf("restore %s: %w", c.path, err)
	}
	return nil
}

func (n *Node) put(path string, content *string) error {
	if content == nil {
		return n.remove(path)
	}
	return n.write(path, *content, path)
}

// diff returns the removed and added lines. Mooring's changes are one piece, so the lines between
// the common start and the common end are the difference.
func (c change) diff() []string {
	before, after := lines(c.before), lines(c.after)
	for len(before) > 0 && len(after) > 0 && before[0] == after[0] {
		before, after = before[1:], after[1:]
	}
	for len(before) > 0 && len(after) > 0 && before[len(before)-1] == after[len(after)-1] {
		before, after = before[:len(before)-1], after[:len(after)-1]
	}
	var diff []string
	for _, line := range before {
		diff = append(diff, strings.TrimRight("- "+line, " "))
	}
	for _, line := range after {
		diff = append(diff, strings.TrimRight("+ "+line, " "))
	}
	return diff
}

func lines(content *string) []string {
	if content == nil {
		return nil
	}
	return strings.Split(strings.TrimSuffix(*content, "\n"), "\n")
}
