package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// layer is the file system of an image as a tar archive. It says of files what they
// contain, and neither whose they were nor from when.
func (r recipe) layer(bin string) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for path := ""; path != folder; {
		next, _, _ := strings.Cut(folder[len(path)+1:], "/")
		path += "/" + next
		if err := w.WriteHeader(header(path+"/", tar.TypeDir, 0)); err != nil {
			return nil, err
		}
	}
	for _, program := range r.programs {
		content, err := static(filepath.Join(bin, program))
		if err != nil {
			return nil, err
		}
		if err := w.WriteHeader(header(filepath.Join(folder, program), tar.TypeReg, len(content))); err != nil {
			return nil, err
		}
		if _, err := w.Write(content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func header(path string, kind byte, size int) *tar.Header {
	return &tar.Header{
		Name: strings.TrimPrefix(path, "/"), Typeflag: kind, Mode: 0o755, Size: int64(size), ModTime: time.Unix(0, 0),
	}
}

// static reads a program, which has to run without a loader: there is none in the image.
func static(path string) ([]byte, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("%s is no program: %w", path, err)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return nil, fmt.Errorf("%s is not static: want one that is built with CGO_ENABLED=0", path)
		}
	}
	return content, nil
}
