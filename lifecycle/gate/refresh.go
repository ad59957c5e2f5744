package gate

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// Refresh replaces an installed hook by this program, in one step and only if the content differs.
// root is the node's root directory. Without an installed hook it changes no file.
func Refresh(root string, program []byte) (changed bool, err error) {
	node, err := os.OpenRoot(root)
	if err != nil {
		return false, fmt.Errorf("refresh the start gate: %w", err)
	}
	defer node.Close()
	old, err := node.ReadFile(below(HookPath))
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && bytes.Equal(old, program):
		return false, nil
	case err == nil:
		err = replaceHook(node, program)
	}
	if err != nil {
		return false, fmt.Errorf("refresh the start gate: %w", err)
	}
	return true, nil
}

// replaceHook writes the program outside of qemu.d: libvirt runs each program there, and obeys its
// exit code.
func replaceHook(node *os.Root, program []byte) (err error) {
	to, err := node.OpenFile(below(NewHookPath), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = to.Write(program)
	err = errors.Join(err, to.Chmod(0o755), to.Sync(), to.Close())
	if err == nil {
		err = node.Rename(below(NewHookPath), below(HookPath))
	}
	if err != nil {
		return errors.Join(err, node.Remove(below(NewHookPath)))
	}
	return nil
}

// below returns an absolute path relative to the root directory.
func below(path string) string { return strings.TrimPrefix(path, "/") }
