package bpf

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
)

// pin creates the directory and pins all maps in it.
func (m mapSet) pin(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("pinning maps: %w", err)
	}
	for name, one := range m {
		if err := one.Pin(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("pinning map %s: %w", name, err)
		}
	}
	return nil
}

// pinnedMaps opens the named maps pinned in a directory.
func pinnedMaps(dir string, names ...string) (mapSet, error) {
	m := mapSet{}
	for _, name := range names {
		one, err := ebpf.LoadPinnedMap(filepath.Join(dir, name), nil)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("pinned map %s: %w", name, err), m.close())
		}
		m[name] = one
	}
	return m, nil
}

// compatiblePins opens the pinned maps if all fit spec.
func compatiblePins(dir string, spec *ebpf.CollectionSpec) (mapSet, error) {
	m := mapSet{}
	for name, one := range spec.Maps {
		pinned, err := pinnedMaps(dir, name)
		if err == nil {
			m[name] = pinned[name]
			err = one.Compatible(pinned[name])
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("pinned map %s: %w", name, err), m.close())
		}
	}
	return m, nil
}

// pin creates the directory and pins programs and links in it.
func (p *programs) pin(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return fmt.Errorf("pinning programs: %w", err)
	}
	for name, program := range p.programs {
		if err := program.Pin(filepath.Join(dir, name+programSuffix)); err != nil {
			return fmt.Errorf("pinning program %s: %w", name, err)
		}
	}
	for name, l := range p.links {
		if err := l.Pin(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("pinning link %s: %w", name, err)
		}
	}
	return markReady(dir)
}

// pinnedPrograms opens pinned programs. It opens the links of the programs in linked, too.
func pinnedPrograms(dir string, linked, others []string) (*programs, error) {
	p := &programs{programs: map[string]*ebpf.Program{}, links: map[string]link.Link{}}
	for _, name := range slices.Concat(linked, others) {
		program, err := ebpf.LoadPinnedProgram(filepath.Join(dir, name+programSuffix), nil)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("pinned program %s: %w", name, err), p.close())
		}
		p.programs[name] = program
	}
	for _, name := range linked {
		l, err := link.LoadPinnedLink(filepath.Join(dir, name), nil)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("pinned link %s: %w", name, err), p.close())
		}
		p.links[name] = l
	}
	return p, nil
}
