package doctor

import (
	"context"
	"slices"
	"strings"
)

const cgroupRoot = "/sys/fs/cgroup"

// cgroupV2 looks for the unified hierarchy where everybody expects it.
func cgroupV2(_ context.Context, s *survey) finding {
	const mend = "boot with systemd.unified_cgroup_hierarchy=1"
	mounts, err := s.read("/proc/mounts")
	if err != nil {
		return finding{Unknown, err.Error(), "the mounts cannot be read", "mount procfs at /proc"}
	}
	types := mountTypes(mounts)
	switch {
	case types[cgroupRoot] == "cgroup2" && !slices.Contains(slicesOf(types), "cgroup"):
		return finding{OK, "cgroup v2 at " + cgroupRoot, "the only hierarchy, as kubelet and Mooring need it", ""}
	case types[cgroupRoot] == "cgroup2":
		return finding{Note, "cgroup v2 at " + cgroupRoot + ", and v1 hierarchies beside it",
			"controllers that a v1 hierarchy has are missing in v2", "unmount the v1 hierarchies"}
	case slices.Contains(slicesOf(types), "cgroup"):
		return finding{Problem, "cgroup v1 at " + cgroupRoot, "the agent does not start: its settings are those of cgroup v2", mend}
	}
	return finding{Problem, "no cgroup v2 hierarchy at " + cgroupRoot, "the agent does not start without it", mend}
}

// mountTypes maps mount points to file system types, as in proc_pid_mounts(5). What
// is mounted last is seen.
func mountTypes(mounts string) map[string]string {
	types := map[string]string{}
	for line := range strings.Lines(mounts) {
		if fields := strings.Fields(line); len(fields) > 2 {
			types[fields[1]] = fields[2]
		}
	}
	return types
}

func slicesOf(types map[string]string) (all []string) {
	for _, t := range types {
		all = append(all, t)
	}
	return all
}

// kubepods are the cgroups above all pods, by kubelet's cgroup driver.
func kubepods() []string { return []string{"kubepods.slice", "kubepods"} }

// cgroupControllers compares what the kernel has with what pods can have.
func cgroupControllers(_ context.Context, s *survey) finding {
	root, err := s.read(cgroupRoot + "/cgroup.controllers")
	if err != nil {
		return finding{Unknown, err.Error(), "the controllers cannot be read", "see cgroup-v2"}
	}
	have := strings.Fields(root)
	for _, needed := range []string{"cpu", "memory", "pids"} {
		if !slices.Contains(have, needed) {
			return finding{Problem, strings.Join(have, " "), "no " + needed + " controller: kubelet and the runtime need it",
				"take cgroup_disable= off the kernel's command line, and unmount v1 hierarchies"}
		}
	}
	for _, pods := range kubepods() {
		if delegated, err := s.read(cgroupRoot + "/" + pods + "/cgroup.subtree_control"); err == nil {
			return delegation(have, strings.Fields(delegated), pods)
		}
	}
	return finding{OK, strings.Join(have, " "), "what containers can have at most; there is no kubepods cgroup that says what pods get", ""}
}

func delegation(have, delegated []string, pods string) finding {
	missing := slices.DeleteFunc(slices.Clone(have), func(c string) bool { return slices.Contains(delegated, c) })
	found := strings.Join(have, " ") + "; pods get " + strings.Join(delegated, " ")
	if len(missing) == 0 {
		return finding{OK, found, "every controller is delegated to " + pods, ""}
	}
	return finding{
		Note, found, "annotations for files of " + strings.Join(missing, ", ") + " are allowed where the policy lists them, " +
			"and fail or differ, because " + pods + " does not hand the controller on",
		"list no such files in the policy; the controllers are kubelet's to enable",
	}
}
