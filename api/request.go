package api

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Request is the sum of a pod's annotations for one of its containers. The node's policy decides
// about it. A nil pointer, an empty string, an empty slice and a zero Size mean no request.
type Request struct {
	RequiresLock *bool     // lock memory even if no device needs it
	Value        *Lockable // lockable memory in addition to the VM's own
	GuestMemory  *int64    // bytes, > 0; base of the lock's computation
	Overhead     *Bytes    // launcher's memory beyond the guest's
	Devices      Devices   // devices that pin the VM's memory

	Cgroup []CgroupSetting // sorted by File, each File once

	GracePeriod *time.Duration // whole seconds, > 0
	Watchdog    *time.Duration // whole seconds, > 0
	Domain      string         // libvirt UUID or name

	Size Size // desired size of the VM
}

// CgroupSetting asks for a value in the cgroup v2 file of the launcher container. Value is
// normalised: see [CgroupFile.Normalize].
type CgroupSetting struct {
	File, Value string
}

// Quantity returns the value for people. Numbers in memory and hugetlb files are bytes and print as
// quantities ("1Gi"). Other values stay as they are.
func (s CgroupSetting) Quantity() string {
	n, err := strconv.ParseInt(s.Value, 10, 64)
	if err != nil || !strings.HasPrefix(s.File, "memory.") &&
		!strings.HasPrefix(s.File, "hugetlb.") {
		return s.Value
	}
	return Bytes(n).String()
}

// Launcher returns the name in [LauncherKey]: the container that runs the VM. ok is false if the
// annotation is absent or invalid. The error is an [*InvalidError], or several joined: the value is
// not a container name, or the key has a scope other than /pod. Launcher does not check the
// api-version.
func Launcher(annotations map[string]string) (container string, ok bool, err error) {
	return named(annotations, LauncherKey)
}

// Sidecar returns the container name in [SidecarKey] like [Launcher].
func Sidecar(annotations map[string]string) (container string, ok bool, err error) {
	return named(annotations, SidecarKey)
}

// named reads a key with the name of one of the pod's containers.
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

// Relevant reports whether any key is under Mooring's suffix, known or not.
func Relevant(annotations map[string]string) bool {
	for key := range annotations {
		if ours(key) {
			return true
		}
	}
	return false
}

// Parse reads all annotations of a pod for the named container. If several scopes have a key, NRI's
// precedence holds: KEY/container.NAME before KEY/pod before KEY. Parse reads only the value that
// holds.
//
// The error joins all faults as [*InvalidError], sorted by key. After ten faults a last error
// counts the remaining ones. Faults are malformed, empty and out-of-range values, and unknown keys,
// unknown scopes and over-long container names under Mooring's suffix. The latter count for every
// container. An unknown version in [APIVersionKey] is the only error, because the other keys may
// belong to the newer version. With an error the Request is the zero value.
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

// checkNames checks the keys with container names. A launcher is not its own sidecar.
func (p *parser) checkNames() {
	p.read(field{LauncherKey, func(_ *Request, name string) error {
		return checkContainerName(name)
	}})
	p.read(field{SidecarKey, func(_ *Request, name string) error {
		if name == p.container {
			return invalid(name, "is the launcher: want the name of another container, which "+
				"runs mooring-shim")
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
			continue // checkKeys reported it
		}
		p.read(field{file + CgroupSuffix, func(r *Request, value string) error {
			value, err := f.Normalize(value)
			r.Cgroup = append(r.Cgroup, CgroupSetting{File: file, Value: value})
			return err
		}})
	}
}

// cgroupFiles returns the files in all keys, sorted and without duplicates.
func (p *parser) cgroupFiles() []string {
	files := map[string]bool{}
	for key := range p.annotations {
		if file, ok := strings.CutSuffix(baseKey(key), CgroupSuffix); ok {
			files[file] = true
		}
	}
	return slices.Sorted(maps.Keys(files))
}

// checkVersion returns an error unless the annotations have this package's version.
func checkVersion(annotations map[string]string) error {
	key, version, ok, err := podWide(annotations, APIVersionKey)
	switch {
	case err != nil:
		return err
	case ok && version == "":
		return keyed(key, version, invalid(version, "want %q", APIVersion))
	case ok && version != APIVersion:
		return keyed(key, version, invalid(version, "this node understands %s; "+
			"the annotations were written for another version, perhaps by a newer webhook",
			APIVersion))
	}
	return nil
}
