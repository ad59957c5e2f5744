package nodeconfig

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	securejoin "github.com/cyphar/filepath-securejoin"
)

// at returns the place of a node's path below Root. Symbolic links on the node stay below Root.
func (n *Node) at(path string) (string, error) {
	place, err := securejoin.SecureJoin(n.Root, path)
	if err != nil {
		return "", fmt.Errorf("resolve %s below %s: %w", path, n.Root, err)
	}
	return place, nil
}

func (n *Node) stat(path string) (fs.FileInfo, error) {
	place, err := n.at(path)
	if err != nil {
		return nil, err
	}
	return os.Stat(place)
}

func (n *Node) exists(path string) (bool, error) {
	_, err := n.stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// read returns a file's content, nil if the file does not exist.
func (n *Node) read(path string) (*string, error) {
	place, err := n.at(path)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(place)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	text := string(content)
	return &text, nil
}

// write replaces a file in one step, with the permissions of the node's file like. These files may
// hold passwords of registries.
func (n *Node) write(path, content, like string) error {
	return n.writeVia(filepath.Dir(path), path, content, like)
}

// writeVia is write with the directory for the new file until its rename.
func (n *Node) writeVia(dir, path, content, like string) error {
	place, err := n.at(path)
	if err != nil {
		return err
	}
	via, err := n.at(dir)
	if err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if info, err := n.stat(like); err == nil {
		mode = info.Mode().Perm()
	}
	if err := os.MkdirAll(filepath.Dir(place), 0o755); err != nil {
		return err
	}
	return replace(via, place, content, mode)
}

// remove removes a file. An absent file is no error.
func (n *Node) remove(path string) error {
	place, err := n.at(path)
	if err != nil {
		return err
	}
	if err := os.Remove(place); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func replace(dir, place, content string, mode fs.FileMode) (err error) {
	to, err := os.CreateTemp(dir, filepath.Base(place)+".new-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(to.Name())
		}
	}()
	_, err = to.WriteString(content)
	if err = errors.Join(err, to.Chmod(mode), to.Sync(), to.Close()); err != nil {
		return err
	}
	return os.Rename(to.Name(), place)
}
