package main

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// tree reads the recipe's programs and checks that they can run, on these libraries if they load
// any.
func (r recipe) tree(bin string, libraries tree) (tree, error) {
	t := tree{}
	for _, name := range r.programs {
		path := filepath.Join(bin, name)
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		f, err := elf.NewFile(bytes.NewReader(content))
		if err != nil {
			return nil, fmt.Errorf("%s is no program: %w", path, err)
		}
		if r.libvirt {
			err = checkLoads(f, content, libraries)
		} else {
			err = checkStatic(f)
		}
		if err != nil {
			return nil, fmt.Errorf("%s %w", path, err)
		}
		t.put(strings.TrimPrefix(filepath.Join(folder, name), "/"),
			file{kind: tar.TypeReg, mode: 0o755, content: content})
	}
	return t, nil
}

// checkStatic refuses a program with a dynamic loader, because the image has none.
func checkStatic(program *elf.File) error {
	if hasLoader(program) {
		return errors.New("is not static: build it with CGO_ENABLED=0")
	}
	return nil
}

func hasLoader(program *elf.File) bool {
	return slices.ContainsFunc(program.Progs, func(p *elf.Prog) bool {
		return p.Type == elf.PT_INTERP
	})
}

// checkLoads refuses a program without libvirt, and a program built with newer libraries than
// these.
func checkLoads(program *elf.File, content []byte, libraries tree) error {
	if !hasLoader(program) || !bytes.Contains(content, []byte(libvirtSO)) {
		return errors.New("does not load libvirt: build it with CGO_ENABLED=1 and " +
			"-tags=libvirt_dlopen, as `make build` does")
	}
	names, err := program.ImportedLibraries()
	if err != nil {
		return fmt.Errorf("has no readable list of libraries: %w", err)
	}
	needs, err := program.DynamicVersionNeeds()
	if err != nil {
		return fmt.Errorf("has no readable list of symbol versions: %w", err)
	}
	for _, name := range append(names, libvirtSO) {
		var versions []string
		for _, need := range needs {
			if need.Name != name {
				continue
			}
			for _, v := range need.Needs {
				versions = append(versions, v.Dep)
			}
		}
		if err := libraries.checkLibrary(name, program.Machine, versions); err != nil {
			return err
		}
	}
	return nil
}

// checkLibrary checks that the tree has a library for this machine with these symbol versions, such
// as GLIBC_2.34.
func (t tree) checkLibrary(name string, machine elf.Machine, versions []string) error {
	content, found := t.library(name)
	if !found {
		return fmt.Errorf("needs %s, which is not in Debian %s's packages %s", name,
			suite, packages)
	}
	f, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return fmt.Errorf("needs %s, and that of Debian %s is no library: %w", name, suite, err)
	}
	if f.Machine != machine {
		return fmt.Errorf("is for %s, and %s of the image for %s: want --arch to be what the "+
			"program is built for", machine, name, f.Machine)
	}
	if lacks := lacking(f, versions); len(lacks) > 0 {
		return fmt.Errorf("needs %s of %s, which Debian %s's is too old for: build it on Debian "+
			"%s, or where that library is as old or older",
			strings.Join(lacks, ", "), name, suite, suite)
	}
	return nil
}

func lacking(library *elf.File, versions []string) []string {
	defined, err := library.DynamicVersions()
	if err != nil { // it has none
		defined = nil
	}
	return slices.DeleteFunc(slices.Clone(versions), func(version string) bool {
		return slices.ContainsFunc(defined, func(d elf.DynamicVersion) bool {
			return d.Name == version
		})
	})
}

// library returns a library from any directory in which the loader searches.
func (t tree) library(name string) ([]byte, bool) {
	for path, f := range t {
		if filepath.Base(path) != name || !strings.HasPrefix(path, "usr/lib") {
			continue
		}
		if f.kind == tar.TypeSymlink {
			f = t[filepath.Join(filepath.Dir(path), f.link)]
		}
		if f.kind == tar.TypeReg {
			return f.content, true
		}
	}
	return nil, false
}
