package doctor

import (
	"context"
	"maps"
	"slices"
	"strings"
)

const cgroupRoot = "/sys/fs/cgroup"

// cgroupV2 checks that the unified hierarchy is mounted at its usual place.
func cgroupV2(_ context.Context, s *survey) finding {
	const mend = "boot with systemd.unified_cgroup_hierarchy=1"
	mounts, err := s.mounts()
	if err != nil {
		return finding{Unknown, err.Error(), "the mounts cannot be read", "mount procfs at /proc"}
	}
	types := mountTypes(mounts)
	v1 := slices.Contains(slices.Collect(maps.Values(types)), "cgroup")
	switch {
	case types[cgroupRoot] == "cgroup2" && !v1:
		return finding{
			OK,
			"cgroup v2 at " + cgroupRoot,
			"the only hierarchy, as kubelet and Mooring need it",
			"",
		}
	case types[cgroupRoot] == "cgroup2":
		return finding{
			Note, "cgroup v2 at " + cgroupRoot + ", and v1 hierarchies beside it",
			"controllers of a v1 hierarchy are missing in v2", "unmount the v1 hierarchies",
		}
	case v1:
		return finding{
			Problem, "cgroup v1 at " + cgroupRoot,
			"the agent does not start: it writes files of cgroup v2", mend,
		}
	}
	return finding{
		Problem,
		"no cgroup v2 hierarchy at " + cgroupRoot,
		"the agent does not start without it",
		mend,
	}
}

// mountTypes maps mount points to file system types, as in proc_pid_mounts(5). The last mount at a
// mount point hides the earlier ones.
func mountTypes(mounts string) map[string]string {
	types := map[string]string{}
	for line := range strings.Lines(mounts) {
		if fields := strings.Fields(line); len(fields) > 2 {
			types[fields[1]] = fields[2]
		}
	}
	return types
}

// kubepods are the cgroups above all pods, by kubelet's cgroup driver.
func kubepods() []string { return []string{"kubepods.slice", "kubepods"} }

// cgroupControllers compares the controllers of the kernel with the controllers of pods.
func cgroupControllers(_ context.Context, s *survey) finding {
	root, err := s.read(cgroupRoot + "/cgroup.controllers")
	if err != nil {
		return finding{Unknown, err.Error(), "the controllers cannot be read", "see cgroup-v2"}
	}
	have := strings.Fields(root)
	for _, needed := range []string{"cpu", "memory", "pids"} {
		if !slices.Contains(have, needed) {
			return finding{
				Problem, strings.Join(have, " "),
				"no " + needed + " controller: kubelet and the runtime need it",
				"remove cgroup_disable= from the kernel's command line, and unmount v1 hierarchies",
			}
		}
	}
	for _, pods := range kubepods() {
		if delegated, err := s.read(cgroupRoot + "/" + pods + "/cgroup.subtree_control"); err ==
			nil {
			return delegation(have, strings.Fields(delegated), pods)
		}
	}
	return finding{
		OK, strings.Join(have, " "),
		"the most that containers can have; the controllers of pods show in a kubepods cgroup, " +
			"and there is none yet",
		"",
	}
}

func delegation(have, delegated []string, pods string) finding {
	isDelegated := func(controller string) bool { return slices.Contains(delegated, controller) }
	missing := slices.DeleteFunc(slices.Clone(have), isDelegated)
	found := strings.Join(have, " ") + "; pods get " + strings.Join(delegated, " ")
	if len(missing) == 0 {
		return finding{OK, found, "every controller is delegated to " + pods, ""}
	}
	return finding{
		Note, found, pods + " does not delegate " + strings.Join(missing, ", ") +
			": annotations for files of these controllers fail or differ, even where the policy " +
			"lists the files",
		"list no such files in the policy; kubelet enables the controllers",
	}
}
