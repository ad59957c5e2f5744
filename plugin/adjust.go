package plugin

import (
	"strconv"
	"strings"

	nri "github.com/containerd/nri/pkg/api"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/decide"
	"github.com/mooring-vm/mooring/lifecycle/poddir"
)

// MountPoint is the path of the pod directory in a launcher.
const MountPoint = "/run/mooring"

const rlimitMemlock = "RLIMIT_MEMLOCK"

// crunSubgroup is an annotation of the OCI spec for crun. crun creates a cgroup for the container's
// processes below the one from systemd, and writes "unified" only there. A weight then competes
// with no other cgroup. With an empty name crun creates no such cgroup. Other runtimes ignore the
// annotation.
const crunSubgroup = "run.oci.systemd.subgroup"

// adjustment translates a decision into NRI's answer. hook is the path of the program for the pod
// on the node. Empty: none.
func adjustment(d decide.Decision, dir poddir.Dir, hook string) *nri.ContainerAdjustment {
	a := &nri.ContainerAdjustment{}
	if d.Memlock != nil && !d.Yield {
		limit := uint64(*d.Memlock) // unlimited is RLIM_INFINITY
		a.AddRlimit(rlimitMemlock, limit, limit)
	}
	if len(d.Cgroup) > 0 {
		a.Linux = &nri.LinuxContainerAdjustment{Resources: resources(d.Cgroup)}
		a.AddAnnotation(crunSubgroup, "")
	}
	for _, m := range mounts(dir, hook) {
		a.AddMount(m)
	}
	return a
}

// mounts returns the bind mounts of a launcher: its pod directory, read-only, on top of it two
// files for the pod to touch, and the hook program. In a read-only directory even root of the pod
// cannot create files. All users may write the two files, so a user namespace needs no mapping of
// ids.
func mounts(dir poddir.Dir, hook string) []*nri.Mount {
	all := []*nri.Mount{
		bind(MountPoint, dir.Path, "ro", "noexec"),
		bind(MountPoint+"/pod/heartbeat", dir.Heartbeat, "rw", "noexec"),
		bind(MountPoint+"/pod/stop", dir.Stop, "rw", "noexec"),
	}
	if hook != "" {
		// No option "exec": in a user namespace runc fails to add it if the node mounts the source
		// noexec.
		all = append(all, bind(MountPoint+"/hook", hook, "ro"))
	}
	return all
}

func bind(destination, source string, options ...string) *nri.Mount {
	return &nri.Mount{
		Destination: destination, Type: "bind", Source: source,
		Options: append([]string{"bind", "nosuid", "nodev", "rprivate"}, options...),
	}
}

// resources translates cgroup settings. Each goes into NRI's "unified" map. Every runtime writes
// this map unchanged and last, and keeps it in the container's spec. The settings therefore survive
// kubelet's updates while the agent is away.
//
// A typed field of the same meaning is set, too. NRI can then detect a conflict with another
// plugin, and the runtime writes the field before "unified". The order within "unified" is random,
// but cpu.max.burst needs a cpu.max that is as large.
//
// The other typed fields differ from the file, or do not arrive (containerd 2.4, NRI 0.12, runc
// 1.5):
//
//	cpu.weight       shares are converted to weights with rounding
//	memory.low       reservation is dropped when the spec is adjusted
//	memory.swap.max  swap is overwritten with the memory limit
//	hugetlb.*.max    dropped by containerd's default disable_hugetlb_controller;
//	                 otherwise runc also sets hugetlb.*.rsvd.max
func resources(settings []api.CgroupSetting) *nri.LinuxResources {
	r := &nri.LinuxResources{Unified: map[string]string{}}
	for _, s := range settings {
		r.Unified[s.File] = s.Value
		switch s.File {
		case "cpu.max":
			setCPUMax(r, s.Value)
		case "cpuset.cpus":
			cpu(r).Cpus = s.Value
		case "cpuset.mems":
			cpu(r).Mems = s.Value
		case "pids.max":
			r.Pids = &nri.LinuxPids{Limit: number(s.Value)}
		}
	}
	return r
}

// setCPUMax sets quota and period from "QUOTA PERIOD".
func setCPUMax(r *nri.LinuxResources, value string) {
	quota, period, _ := strings.Cut(value, " ")
	cpu(r).Quota = nri.Int64(number(quota))
	if period != "" {
		cpu(r).Period = nri.UInt64(uint64(number(period)))
	}
}

func cpu(r *nri.LinuxResources) *nri.LinuxCPU {
	if r.Cpu == nil {
		r.Cpu = &nri.LinuxCPU{}
	}
	return r.Cpu
}

// number parses a value from package api. The OCI runtime specification writes "max" as -1.
func number(value string) int64 {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// kubeletOwned returns the settings of files that kubelet's updates overwrite.
func kubeletOwned(settings []api.CgroupSetting) []api.CgroupSetting {
	var owned []api.CgroupSetting
	for _, s := range settings {
		if file, ok := api.LookupCgroupFile(s.File); ok && file.KubeletOwned {
			owned = append(owned, s)
		}
	}
	return owned
}
