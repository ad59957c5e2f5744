package explain

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/decide"
	"github.com/mooring-vm/mooring/lifecycle/host"
)

// KernelFile is a kernel file and its expected content for one container.
type KernelFile struct {
	// of the container's cgroup, or limits: one line of /proc/PID/limits
	File    string `json:"file"`
	Content string `json:"content"`
}

// LimitsFile is the name of a [KernelFile] for RLIMIT_MEMLOCK.
const LimitsFile = "limits"

// kernelShows returns the expected kernel files of a container with its requested settings. nil:
// the agent applies none.
func kernelShows(d decide.Decision) (all []KernelFile) {
	if !d.Act() {
		return nil
	}
	if d.Memlock != nil && !d.Yield {
		all = append(all,
			KernelFile{LimitsFile, limitsLine(host.Rlimit{Soft: *d.Memlock, Hard: *d.Memlock})})
	}
	for _, s := range d.Cgroup {
		all = append(all, KernelFile{s.File, cgroupContent(s)})
	}
	return all
}

// limitsLine returns the line of /proc/PID/limits for a process with these limits (proc_pid_limits
// in the kernel's fs/proc/base.c), without trailing blanks.
func limitsLine(r host.Rlimit) string {
	return fmt.Sprintf("%-25s %-20s %-20s %s", "Max locked memory", shown(r.Soft),
		shown(r.Hard), "bytes")
}

func shown(l host.Limit) string {
	if l == host.Unlimited {
		return api.Unlimited
	}
	return strconv.FormatUint(uint64(l), 10)
}

// cgroupContent returns the content of a new cgroup's file after a write of the setting, for this
// machine's page size. A real file may have more lines, for other devices or resources.
func cgroupContent(s api.CgroupSetting) string {
	switch s.File {
	case "io.max":
		return withMax(s.Value, true, "rbps", "wbps", "riops", "wiops")
	case "rdma.max":
		return withMax(s.Value, false, "hca_handle", "hca_object")
	case "io.weight":
		if !strings.HasPrefix(s.Value, "default ") {
			return "default 100\n" + s.Value
		}
	}
	file, ok := api.LookupCgroupFile(s.File)
	if !ok || file.Shows(s.Value, s.Value) {
		return s.Value
	}
	n, err := strconv.ParseInt(s.Value, 10, 64)
	page := int64(os.Getpagesize())
	if rounded := strconv.FormatInt(n/page*page, 10); err == nil && file.Shows(rounded, s.Value) {
		return rounded
	}
	return "max"
}

// withMax adds missing keys with the value "max" of a new cgroup, in the kernel's order. Some files
// omit devices without any limit.
func withMax(value string, leaveOut bool, keys ...string) string {
	words := strings.Fields(value)
	line := words[:1:1]
	for _, key := range keys {
		at := slices.IndexFunc(words, func(w string) bool { return strings.HasPrefix(w, key+"=") })
		if at < 0 {
			line = append(line, key+"=max")
			continue
		}
		line = append(line, words[at])
	}
	if leaveOut && !slices.ContainsFunc(line[1:], func(w string) bool {
		return !strings.HasSuffix(w, "=max")
	}) {
		return ""
	}
	return strings.Join(line, " ")
}
