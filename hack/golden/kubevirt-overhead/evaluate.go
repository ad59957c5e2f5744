package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// Where GetMemoryOverhead is, newest first.
var overheadFolders = []string{"pkg/hypervisor/kvm", "pkg/virt-controller/services"}

// Where the defaults of the webhook are, newest first.
var defaultsFolders = []string{"pkg/defaults", "pkg/virt-api/webhooks", "pkg/virt-api/webhooks/mutating-webhook/mutators"}

// The defaults that memory and CPUs depend on, in the order in which they are entered.
// Each release has some of them.
var defaults = []string{"setDefaultResourceRequests", "setGuestMemory", "setDefaultGuestCPUTopology", "SetDefaultGuestCPUTopology"}

const api = "staging/src/kubevirt.io/api"

// asker asks KubeVirt for rows. Releases with the same code are asked once.
type asker struct {
	repository repository
	required   []string // modules to build with, where newer than the release's own
	rows       []row
	said       map[[sha256.Size]byte][]*int64
}

// at returns the overheads that KubeVirt computes at a tag: nil for those with a
// ratio, where there is none.
func (a *asker) at(tag string) ([]*int64, error) {
	dir, err := os.MkdirTemp("", "kubevirt-overhead-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "program")
	for folder, to := range map[string]string{"pkg": dir, api: program} {
		if err := a.repository.extract(tag, folder, to); err != nil {
			return nil, err
		}
	}
	if err := newExtraction(dir).write(program, a.required); err != nil {
		return nil, err
	}
	sum, err := sumOf(program)
	if err != nil {
		return nil, err
	}
	if said, ok := a.said[sum]; ok {
		return said, nil
	}
	a.said[sum], err = ask(program, a.rows)
	return a.said[sum], err
}

// sumOf tells folders with different Go code from each other.
func sumOf(dir string) ([sha256.Size]byte, error) {
	h := sha256.New()
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(file, "_test.go") {
			return err
		}
		text, err := os.ReadFile(file)
		fmt.Fprintf(h, "%s %d %s", strings.TrimPrefix(file, dir), len(text), text)
		return err
	})
	return [sha256.Size]byte(h.Sum(nil)), err
}

// write makes a program of KubeVirt's functions.
func (e *extraction) write(dir string, required []string) error {
	overheads, method, err := e.find(overheadFolders, []string{"GetMemoryOverhead"})
	if err != nil {
		return err
	}
	enter, calls, err := e.find(defaultsFolders, defaults)
	if err != nil {
		return err
	}
	more := map[string]string{overheads: overheadCode(method[0]), enter: defaultsCode(calls)}
	for folder, p := range e.packages {
		if err := writeFile(p.file(more[folder]), dir, folder, "extracted.go"); err != nil {
			return err
		}
	}
	main := fmt.Sprintf(mainCode, module+"/"+overheads, module+"/"+enter)
	return errors.Join(writeFile([]byte(main), dir, "main.go"), writeFile(goMod(required), dir, "go.mod"))
}

func goMod(required []string) []byte {
	text := fmt.Appendf(nil, "module %s\n\ngo 1.24\n\nreplace kubevirt.io/api => ./%s\n\nrequire kubevirt.io/api v0.0.0\n", module, api)
	for _, r := range required {
		text = fmt.Appendf(text, "require %s\n", r)
	}
	return text
}

// find takes those of the named functions that there are, from the first folder that
// has one.
func (e *extraction) find(folders, names []string) (string, []declaration, error) {
	for _, folder := range folders {
		s, err := e.source(folder)
		if err != nil {
			continue // not in this release
		}
		var found []declaration
		for _, name := range names {
			if d, ok := s.decls[name]; ok {
				found = append(found, d)
				if err := e.need(folder, name); err != nil {
					return "", nil, err
				}
			}
		}
		if len(found) > 0 {
			return folder, found, nil
		}
	}
	return "", nil, fmt.Errorf("none of %v is in %v", names, folders)
}

// ask runs the program. What it says is one number a row.
func ask(program string, rows []row) ([]*int64, error) {
	in, err := json.Marshal(rows)
	if err != nil {
		return nil, err
	}
	c := exec.Command("go", "run", "-mod=mod", ".")
	c.Dir, c.Stdin, c.Stderr = program, bytes.NewReader(in), os.Stderr
	c.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("go run: %w", err)
	}
	var said []*int64
	if err := json.Unmarshal(out, &said); err != nil {
		return nil, err
	}
	if len(said) != len(rows) {
		return nil, fmt.Errorf("%d answers to %d questions", len(said), len(rows))
	}
	return said, nil
}

func writeFile(text []byte, elements ...string) error {
	file := filepath.Join(elements...)
	if err := os.MkdirAll(path.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}
