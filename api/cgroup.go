package api

import (
	"slices"
	"strings"
	"sync"
)

// CgroupFile describes a cgroup v2 interface file that an annotation may set. [LookupCgroupFile]
// returns one; the zero value has no use.
type CgroupFile struct {
	// Name as in the cgroup file system, such as "memory.high".
	Name string

	// KubeletOwned is set for files that kubelet rewrites from the pod's resources while the
	// container runs. Their value must be set again after each update by kubelet.
	KubeletOwned bool

	// Protection is set for memory.min and memory.low. The kernel honours them only as far as every
	// ancestor has them, too.
	Protection bool

	grammar grammar
}

// grammar describes the values that a family of cgroup files accepts and shows. The sources are the
// kernel's Documentation/admin-guide/cgroup-v2.rst and, for ranges and rounding, the write handlers
// of the files.
type grammar interface {
	// allowed returns the accepted values as text for people.
	allowed() string

	// normalize returns the value as the kernel shows it, except for rounding. ok is false if the
	// kernel would refuse the value.
	normalize(value string) (normal string, ok bool)

	// shows reports whether content shows a normalised value.
	shows(content, value string) bool
}

// LookupCgroupFile returns the description of a cgroup v2 file. ok is false for a name that no
// annotation may set. One of these is memory.max, which belongs to kubelet and the container's
// memory limit.
func LookupCgroupFile(name string) (f CgroupFile, ok bool) {
	if f, ok := lookupHugetlb(name); ok {
		return f, true
	}
	files := cgroupFiles()
	at := slices.IndexFunc(files, func(f CgroupFile) bool { return f.Name == name })
	if at < 0 {
		return CgroupFile{}, false
	}
	return files[at], true
}

// CheckCgroupFile returns nil if [LookupCgroupFile] knows the name. Else the error is an
// [*InvalidError] without key. It lists the known files, or explains why memory.max is not among
// them.
func CheckCgroupFile(name string) error {
	if _, ok := LookupCgroupFile(name); ok {
		return nil
	}
	if name == "memory.max" {
		return invalid(name, "memory.max is the container's memory limit and belongs to kubelet: "+
			"set resources.limits.memory of the container")
	}
	return invalid(name, "unknown cgroup file: want one of %s", strings.Join(CgroupFiles(), ", "))
}

// CgroupFiles returns the names of all files that an annotation may set, sorted. The families
// hugetlb.<size>.max and hugetlb.<size>.rsvd.max appear in this form.
func CgroupFiles() []string {
	names := []string{hugetlbMax, hugetlbReserved}
	for _, f := range cgroupFiles() {
		names = append(names, f.Name)
	}
	slices.Sort(names)
	return names
}

// Allowed returns the accepted values as text for people.
func (f CgroupFile) Allowed() string { return f.grammar.allowed() }

// Normalize checks a value against the file's grammar and returns it as the kernel shows it, except
// for rounding. Quantities such as 9Gi become decimal bytes, lists are sorted, and absent parts get
// the kernel's default. A normalised value stays the same. The error is an [*InvalidError] without
// key.
func (f CgroupFile) Normalize(value string) (string, error) {
	normal, ok := f.grammar.normalize(value)
	if !ok {
		return "", invalid(value, "want %s", f.grammar.allowed())
	}
	return normal, nil
}

// Shows reports whether the content of the file shows that the kernel took a normalised value. It
// knows the kernel's rounding (bytes down to whole pages of this machine) and format (one line per
// device, "max" above any limit).
func (f CgroupFile) Shows(content, value string) bool {
	return f.grammar.shows(content, value)
}

// cgroupFiles lists all files except hugetlb's, because their names depend on page sizes.
var cgroupFiles = sync.OnceValue(func() []CgroupFile {
	weight := number{lo: 1, hi: 10000}
	return []CgroupFile{
		{Name: "cpu.idle", grammar: newFlag()},
		{Name: "cpu.max", KubeletOwned: true, grammar: cpuMax{}},
		{Name: "cpu.max.burst", grammar: number{lo: 0, hi: maxBandwidth, unit: "microseconds"}},
		{Name: "cpu.weight", KubeletOwned: true, grammar: weight},
		{Name: "cpuset.cpus", KubeletOwned: true, grammar: list{limit: 8192}}, // NR_CPUS
		{Name: "cpuset.mems", KubeletOwned: true, grammar: list{limit: 1024}}, // MAX_NUMNODES
		{Name: "io.latency", grammar: ioLatency()},
		{Name: "io.max", grammar: ioMax()},
		{Name: "io.weight", grammar: ioWeight()},
		// a page at least: 0 would stop the VM
		{Name: "memory.high", grammar: byteLimit{lo: 64 << 10}},
		{Name: "memory.low", Protection: true, grammar: byteLimit{}},
		{Name: "memory.min", Protection: true, grammar: byteLimit{}},
		{Name: "memory.oom.group", grammar: newFlag()},
		{Name: "memory.swap.high", grammar: byteLimit{}},
		{Name: "memory.swap.max", grammar: byteLimit{}},
		{Name: "memory.zswap.max", grammar: byteLimit{}},
		{Name: "memory.zswap.writeback", grammar: newFlag()},
		{Name: "misc.max", grammar: miscMax()},
		{Name: "pids.max", grammar: number{lo: 1, hi: 4 << 20, orMax: true}}, // PID_MAX_LIMIT
		{Name: "rdma.max", grammar: rdmaMax()},
	}
})
