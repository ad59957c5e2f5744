package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

// tree is a part of an image's file system. Its keys are paths without a leading slash.
type tree map[string]file

// file has no owner and no time: root owns all files, and their time is zero.
type file struct {
	kind    byte // tar.TypeReg, tar.TypeDir or tar.TypeSymlink
	mode    int64
	link    string
	content []byte
}

// put adds a file and its missing parent directories.
func (t tree) put(name string, f file) {
	t[name] = f
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if _, there := t[dir]; !there {
			t[dir] = file{kind: tar.TypeDir, mode: 0o755}
		}
	}
}

// archive is the tree as a tar archive. Directories come before their files.
func (t tree) archive() ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(t)) {
		f := t[name]
		h := &tar.Header{
			Name: name, Typeflag: f.kind, Mode: f.mode, Linkname: f.link,
			Size: int64(len(f.content)), ModTime: time.Unix(0, 0),
		}
		if f.kind == tar.TypeDir {
			h.Name += "/"
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// readTree reads the files of an archive for which keep returns true.
func readTree(archive io.Reader, keep func(name string) bool) (tree, error) {
	t := tree{}
	for r := tar.NewReader(archive); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return t, nil
		}
		if err != nil {
			return nil, err
		}
		name := path.Clean(strings.TrimPrefix(h.Name, "./"))
		if !keep(name) || h.Typeflag == tar.TypeDir {
			continue
		}
		if h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeSymlink {
			return nil, fmt.Errorf("%s is of type %q: want a file, a folder or a symbolic link",
				h.Name, h.Typeflag)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", h.Name, err)
		}
		t.put(name, file{kind: h.Typeflag, mode: h.Mode, link: h.Linkname, content: content})
	}
}
