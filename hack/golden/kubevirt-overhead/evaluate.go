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

// overheadFolders are the packages of GetMemoryOverhead, newest first.
var overheadFolders = []string{"pkg/hypervisor/kvm", "pkg/virt-controller/services"}

// defaultsFolders are the packages of the webhook's defaults, newest first.
var defaultsFolders = []string{"pkg/defaults", "pkg/virt-api/webhooks",
	"pkg/virt-api/webhooks/mutating-webhook/mutators"}

// defaults are the functions that set memory and CPU defaults, in the order of their calls. Each
// release has some of them.
var defaults = []string{"setDefaultResourceRequests", "setGuestMemory",
	"setDefaultGuestCPUTopology", "SetDefaultGuestCPUTopology"}

const api = "staging/src/kubevirt.io/api"

// evaluator computes rows with KubeVirt's code. It computes once for releases with the same code.
type evaluator struct {
	repository repository
	required   []string // modules to build with, where newer than the release's own
	rows       []row
	results    map[[sha256.Size]byte][]*answer
}

// answer holds KubeVirt's results for a row.
type answer struct {
	Overhead int64 // in bytes

	// Start and Running are virt-handler's memory lock for libvirt at the start, and for a running
	// QEMU: bytes, "unlimited", or "none" if virt-handler sets none.
	Start, Running string
}

// at returns KubeVirt's results at a tag. Rows with a ratio give nil in releases that have no
// ratio.
func (a *evaluator) at(tag string) ([]*answer, error) {
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
	if results, ok := a.results[sum]; ok {
		return results, nil
	}
	a.results[sum], err = ask(program, a.rows)
	return a.results[sum], err
}

// sumOf is a hash of the Go code below a directory.
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

// write writes a program around KubeVirt's functions.
func (e *extraction) write(dir string, required []string) error {
	overheads, method, err := e.find(overheadFolders, []string{"GetMemoryOverhead"})
	if err != nil {
		return err
	}
	enter, calls, err := e.find(defaultsFolders, defaults)
	if err != nil {
		return err
	}
	locks, adjusting, err := e.find(lockFolders, adjust)
	if err != nil {
		return err
	}
	if err := e.needForLocks(locks); err != nil {
		return err
	}
	more := map[string]string{}
	more[overheads] += overheadCode(method[0])
	more[enter] += defaultsCode(calls)
	more[locks] += lockCode(locks, adjusting[0]) // since 1.8 in the same package as the overhead
	for folder, p := range e.packages {
		if err := writeFile(p.file(more[folder]), dir, folder, "extracted.go"); err != nil {
			return err
		}
	}
	main := fmt.Sprintf(mainCode, module+"/"+overheads, module+"/"+enter, module+"/"+locks)
	return errors.Join(writeFile([]byte(main), dir, "main.go"),
		writeFile(goMod(required), dir, "go.mod"))
}

func goMod(required []string) []byte {
	text := fmt.Appendf(nil, "module %s\n\ngo 1.24\n\nreplace kubevirt.io/api => ./%s\n\nrequire "+
		"kubevirt.io/api v0.0.0\n", module, api)
	for _, r := range required {
		text = fmt.Appendf(text, "require %s\n", r)
	}
	return text
}

// find extracts the named functions from the first package that has any of them.
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

// ask runs the program, which returns one answer for each row.
func ask(program string, rows []row) ([]*answer, error) {
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
	var results []*answer
	if err := json.Unmarshal(out, &results); err != nil {
		return nil, err
	}
	if len(results) != len(rows) {
		return nil, fmt.Errorf("%d answers to %d questions", len(results), len(rows))
	}
	return results, nil
}

func writeFile(text []byte, elements ...string) error {
	file := filepath.Join(elements...)
	if err := os.MkdirAll(path.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, text, 0o644)
}
