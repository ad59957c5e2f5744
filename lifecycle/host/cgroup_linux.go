package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// maxCgroupDepth and maxCgroups bound the scan of a container's cgroups, because the container may
// own its cgroup and create many below it.
const (
	maxCgroupDepth = 16
	maxCgroups     = 4096
)

// NewLinuxKernel returns the kernel behind a procfs (mounted at proc, usually "/proc") and the
// cgroup v2 hierarchy (mounted at cgroup, usually "/sys/fs/cgroup"). It reads both once to find the
// root of its cgroup namespace in the hierarchy. A procfs that hides processes (hidepid) is an
// error.
func NewLinuxKernel(proc, cgroup string) (*LinuxKernel, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(cgroup, &st); err != nil {
		return nil, fmt.Errorf("cgroup v2 hierarchy at %s: %w", cgroup, err)
	}
	if st.Type != unix.CGROUP2_SUPER_MAGIC {
		return nil, fmt.Errorf("%s is no cgroup v2 hierarchy: the node needs cgroup v2", cgroup)
	}
	k := &LinuxKernel{proc: proc, cgroup: cgroup}
	if err := k.checkProcfs(); err != nil {
		return nil, err
	}
	var err error
	k.nsRoot, err = k.namespaceRoot()
	return k, err
}

// checkProcfs reads process 1, which always runs and usually belongs to another user.
func (k *LinuxKernel) checkProcfs() error {
	if _, err := k.startTime(1); err != nil {
		return fmt.Errorf("%s hides process 1: mount it without hidepid, or give the agent "+
			"CAP_SYS_PTRACE: %w", k.proc, err)
	}
	return nil
}

// Controllers returns the cgroup controllers of the hierarchy's root. Other cgroups have a subset.
func (k *LinuxKernel) Controllers() ([]string, error) {
	content, err := k.ReadCgroup("/", "cgroup.controllers")
	return strings.Fields(content), err
}

// Cgroup implements [Kernel].
func (k *LinuxKernel) Cgroup(pid int) (string, error) {
	content, err := k.readProc(pid, "cgroup")
	if err != nil {
		return "", err
	}
	seen, err := parseCgroup(content)
	if err != nil {
		return "", fmt.Errorf("process %d: %w", pid, err)
	}
	return path.Join(k.nsRoot, seen), nil
}

// ReadCgroup implements [Kernel].
func (k *LinuxKernel) ReadCgroup(cgroup, file string) (string, error) {
	data, err := os.ReadFile(filepath.Join(k.cgroup, cgroup, file))
	if errors.Is(err, unix.ENODEV) { // the cgroup was removed after the open
		err = fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return string(data), err
}

// Processes implements [Kernel].
func (k *LinuxKernel) Processes(cgroup string) ([]Process, error) {
	if _, err := os.Stat(filepath.Join(k.cgroup, cgroup)); err != nil {
		return nil, fmt.Errorf("cgroup %s: %w", cgroup, goneIf(err, unix.ENOENT))
	}
	var all []Process
	for _, dir := range k.subtree(cgroup) {
		pids, err := k.procs(dir)
		if err != nil {
			return nil, err
		}
		for _, pid := range pids {
			p, err := k.identify(pid)
			switch {
			case err == nil && InCgroup(p.Cgroup, cgroup):
				all = append(all, p)
			case err != nil && !errors.Is(err, ErrGone):
				return nil, fmt.Errorf("cgroup %s: %w", cgroup, err)
			}
		}
	}
	return all, nil
}

// procs reads the processes of one cgroup. A threaded cgroup has none of its own (EOPNOTSUPP): the
// root of its threaded domain lists them.
func (k *LinuxKernel) procs(cgroup string) ([]int, error) {
	content, err := k.ReadCgroup(cgroup, "cgroup.procs")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return parsePIDs(content)
}

// identify returns start time and cgroup of the process with this pid. It reads the start time
// before and after the cgroup, so both belong to the same process.
func (k *LinuxKernel) identify(pid int) (Process, error) {
	start, err := k.startTime(pid)
	if err != nil {
		return Process{}, err
	}
	cgroup, err := k.Cgroup(pid)
	if err != nil {
		return Process{}, err
	}
	p := ProcessAt(pid, start)
	p.Cgroup = cgroup
	return p, k.verify(p)
}

// subtree lists a cgroup and its descendants, breadth first and bounded. It skips vanished
// children.
func (k *LinuxKernel) subtree(cgroup string) []string {
	dirs := []string{cgroup}
	floor := strings.Count(cgroup, "/") + maxCgroupDepth
	for next := 0; next < len(dirs) && len(dirs) < maxCgroups; next++ {
		if strings.Count(dirs[next], "/") < floor {
			dirs = append(dirs, k.children(dirs[next])...)
		}
	}
	return dirs[:min(len(dirs), maxCgroups)]
}

func (k *LinuxKernel) children(cgroup string) []string {
	entries, _ := os.ReadDir(filepath.Join(k.cgroup, cgroup)) // empty or partial if it is gone
	var dirs []string
	for _, e := range entries {
		if e.IsDir() {
			dirs = append(dirs, path.Join(cgroup, e.Name()))
		}
	}
	return dirs
}

// namespaceRoot finds the root of this process's cgroup namespace. In a container,
// /proc/<pid>/cgroup shows paths relative to it ("/../../pod"), while a mount of the host's
// cgroupfs shows paths from the host's root.
func (k *LinuxKernel) namespaceRoot() (string, error) {
	content, err := os.ReadFile(filepath.Join(k.proc, "self", "cgroup"))
	if err != nil {
		return "", fmt.Errorf("own cgroup: %w", err)
	}
	own, err := parseCgroup(string(content))
	if err != nil {
		return "", fmt.Errorf("own cgroup: %w", err)
	}
	if k.lists(own, os.Getpid()) {
		return "/", nil
	}
	for dirs := []string{"/"}; len(dirs) > 0; dirs = dirs[1:] {
		if root, ok := strings.CutSuffix(dirs[0], strings.TrimSuffix(own, "/")); ok &&
			k.lists(dirs[0], os.Getpid()) {
			return path.Join("/", root), nil
		}
		dirs = append(dirs, k.children(dirs[0])...)
	}
	return "",
		fmt.Errorf("own cgroup %s is not below %s: mount the host's cgroup v2 hierarchy there, "+
			"and use the host's pid namespace", own, k.cgroup)
}

func (k *LinuxKernel) lists(cgroup string, pid int) bool {
	pids, err := k.procs(cgroup)
	return err == nil && slices.Contains(pids, pid)
}
