package doctor

import (
	"errors"
	"io/fs"
	"os"
	"path"

	securejoin "github.com/cyphar/filepath-securejoin"
)

// hostFS is the root file system of a node, mounted at a directory. Symbolic links resolve inside
// of it, as on the node. [os.DirFS] follows an absolute link to outside.
type hostFS string

var (
	_ fs.StatFS     = hostFS("")
	_ fs.ReadFileFS = hostFS("")
	_ fs.ReadDirFS  = hostFS("")
	_ fs.ReadLinkFS = hostFS("")
)

// resolve returns the place of a path of the node, with all links resolved.
func (h hostFS) resolve(name string) (string, error) {
	return securejoin.SecureJoin(string(h), name)
}

// resolveDir is resolve for operations on a link itself.
func (h hostFS) resolveDir(name string) (string, error) {
	dir, err := h.resolve(path.Dir(name))
	return path.Join(dir, path.Base(name)), err
}

// Open implements [fs.FS].
func (h hostFS) Open(name string) (fs.File, error) {
	at, err := h.resolve(name)
	if err != nil {
		return nil, err
	}
	return os.Open(at)
}

// Stat implements [fs.StatFS].
func (h hostFS) Stat(name string) (fs.FileInfo, error) {
	at, err := h.resolve(name)
	if err != nil {
		return nil, err
	}
	return os.Stat(at)
}

// ReadFile implements [fs.ReadFileFS].
func (h hostFS) ReadFile(name string) ([]byte, error) {
	at, err := h.resolve(name)
	if err != nil {
		return nil, err
	}
	return os.ReadFile(at)
}

// ReadDir implements [fs.ReadDirFS].
func (h hostFS) ReadDir(name string) ([]fs.DirEntry, error) {
	at, err := h.resolve(name)
	if err != nil {
		return nil, err
	}
	return os.ReadDir(at)
}

// Lstat implements [fs.ReadLinkFS].
func (h hostFS) Lstat(name string) (fs.FileInfo, error) {
	at, err := h.resolveDir(name)
	if err != nil {
		return nil, err
	}
	return os.Lstat(at)
}

// ReadLink implements [fs.ReadLinkFS].
func (h hostFS) ReadLink(name string) (string, error) {
	at, err := h.resolveDir(name)
	if err != nil {
		return "", err
	}
	return os.Readlink(at)
}

// runtimeSocket returns the place of a socket of the node. Empty means the first existing one of
// containerd, and of k3s and RKE2.
func (h hostFS) runtimeSocket(path string) (string, error) {
	if path != "" {
		return h.resolve(path)
	}
	const k3s = "/run/k3s/containerd/containerd.sock"
	if _, err := h.Stat(containerdSocket); errors.Is(err, fs.ErrNotExist) {
		if _, err := h.Stat(k3s); err == nil {
			return h.resolve(k3s)
		}
	}
	return h.resolve(containerdSocket)
}

const containerdSocket = "/run/containerd/containerd.sock"
