package api

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// Request is what the annotations of a pod ask for one of its containers. It is
// a wish: the node's policy decides. A nil pointer, an empty string and an empty
// slice mean that nothing was asked.
type Request struct {
	RequiresLock *bool     // memory is locked without a device demanding it
	Value        *Lockable // lockable memory beyond the VM's own
	GuestMemory  *int64    // bytes, > 0; what the lock is computed from
	Devices      Devices   // what pins the VM's memory

	Cgroup []CgroupSetting // sorted by File, each File once

	GracePeriod *time.Duration // whole seconds, > 0
	Watchdog    *time.Duration // whole seconds, > 0
	Domain      string         // libvirt UUID or name

	Size Size // desired size of the VM
}

// CgroupSetting is the wish to have Value in the cgroup v2 file named File of
// the launcher container. Value is normalised: see [CgroupFile.Normalize].
type CgroupSetting struct {
	File, Value string
}

// Launcher returns the name of the container that runs the VM, where
// [LauncherKey] says so; ok is false when the annotation is absent or wrong. The
// error is an [*InvalidError], or several joined: the name is no container name,
// or the key carries a scope other than /pod. The api-version is not looked at.
func Launcher(annotations map[string]string) (container string, ok bool, err error) {
	return named(annotations, LauncherKey)
}

// Sidecar returns the name of the container that [SidecarKey] names, as Launcher does.
func Sidecar(annotations map[string]string) (container string, ok bool, err error) {
	return named(annotations, SidecarKey)
}

// named reads a key whose value is the name of a container of the pod.
func named(annotations map[string]string, of string) (container string, ok bool, err error) {
	key, name, ok, err := podWide(annotations, of)
	if err != nil || !ok {
		return "", false, err
	}
	if err := checkContainerName(name); err != nil {
		return "", false, keyed(key, name, err)
	}
	return name, true, nil
}

// Relevant reports whether any key of the annotations is under our suffix,
// known or not.
func Relevant(annotations map[string]string) bool {
	for key := range annotations {
		if ours(key) {
			return true
		}
	}
	return false
}

// Parse reads all annotations of a pod as far as they concern the named
// container. Where a key is given more than once, NRI's precedence holds:
// KEY/container.NAME before KEY/pod before KEY; only the value that wins is read.
//
// All faults are reported at once, as an errors.Join of [*InvalidError] sorted by
// key (ten of them; a last error counts the rest): values that are malformed, out
// of range or empty; keys under our suffix that are unknown, or have an unknown
// scope or an over-long container name, no matter which container they name. When
// [APIVersionKey] names a version that this package does not know, that is the
// only error, since the other keys may be newer, too. With an error the Request
// is the zero value.
func Parse(annotations map[string]string, container string) (Request, error) {
	if err := checkVersion(annotations); err != nil {
		return Request{}, err
	}
	p := parser{annotations: annotations, container: container}
	p.checkKeys()
	p.checkNames()
	for _, f := range slices.Concat(fields(), webhookFields()) {
		p.read(f)
	}
	p.readCgroup()
	if err := joinFaults(p.faults); err != nil {
		return Request{}, err
	}
	return p.request, nil
}

// parser collects the Request and the faults of one Parse.
type parser struct {
	annotations map[string]string
	container   string
	request     Request
	faults      []*InvalidError
}

func (p *parser) checkKeys() {
	for key, value := range p.annotations {
		if !ours(key) {
			continue
		}
		if fault := checkKey(key, value); fault != nil {
			p.faults = append(p.faults, fault)
		}
	}
}

// checkNames checks what names containers. Nobody is a launcher and its own sidecar.
func (p *parser) checkNames() {
	p.read(field{LauncherKey, func(_ *Request, name string) error { return checkContainerName(name) }})
	p.read(field{SidecarKey, func(_ *Request, name string) error {
		if name == p.container {
			return invalid(name, "is the launcher: want the name of another container, which runs mooring-shim")
		}
		return checkContainerName(name)
	}})
}

func (p *parser) read(f field) {
	key, value, ok := Effective(p.annotations, f.key, p.container)
	if !ok {
		return
	}
	if err := f.set(&p.request, value); err != nil {
		p.faults = append(p.faults, keyed(key, value, err))
	}
}

func (p *parser) readCgroup() {
	for _, file := range p.cgroupFiles() {
		f, ok := LookupCgroupFile(file)
		if !ok {
			continue // checkKeys has said so
		}
		p.read(field{file + CgroupSuffix, func(r *Request, value string) error {
			value, err := f.Normalize(value)
			r.Cgroup = append(r.Cgroup, CgroupSetting{File: file, Value: value})
			return err
		}})
	}
}

// cgroupFiles returns the files that any key names, sorted, each once.
func (p *parser) cgroupFiles() []string {
	files := map[string]bool{}
	for key := range p.annotations {
		if file, ok := strings.CutSuffix(baseKey(key), CgroupSuffix); ok {
			files[file] = true
		}
	}
	return slices.Sorted(maps.Keys(files))
}

// checkVersion returns an error unless the annotations are of our version.
func checkVersion(annotations map[string]string) error {
	key, version, ok, err := podWide(annotations, APIVersionKey)
	switch {
	case err != nil:
		return err
	case ok && version == "":
		return keyed(key, version, invalid(version, "want %q", APIVersion))
	case ok && version != APIVersion:
		return keyed(key, version, invalid(version, "this node understands %s; "+
			"the annotations were written for another version, perhaps by a newer webhook", APIVersion))
	}
	return nil
}
