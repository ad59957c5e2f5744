package plugin

import (
	"strconv"
	"strings"

	nri "github.com/containerd/nri/pkg/api"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/decide"
	"github.com/mooring-vm/mooring/lifecycle/poddir"
)

// MountPoint is where a launcher finds its pod directory.
const MountPoint = "/run/mooring"

const rlimitMemlock = "RLIMIT_MEMLOCK"

// crunSubgroup names the cgroup that crun makes for the container's processes below
// the one that systemd made for the container. crun writes "unified" only there, where
// a weight competes with nobody; with an empty name it makes none. Other runtimes do
// not look at this annotation of the OCI spec.
const crunSubgroup = "run.oci.systemd.subgroup"

// adjustment translates a decision that acts. hook is the program for the pod, on the
// node; empty: none.
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

// mounts shows a launcher its pod directory, read-only, and on top of that the two
// files that it may touch, and the hook program. The directory being read-only, nobody
// in the pod can make a file, not even root. The files are open to everybody, so that a
// user namespace needs no mapping of ids.
func mounts(dir poddir.Dir, hook string) []*nri.Mount {
	all := []*nri.Mount{
		bind(MountPoint, dir.Path, "ro", "noexec"),
		bind(MountPoint+"/pod/heartbeat", dir.Heartbeat, "rw", "noexec"),
		bind(MountPoint+"/pod/stop", dir.Stop, "rw", "noexec"),
	}
	if hook != "" {
		// Not "exec": runc fails in a user namespace whose node mounts the
		// source noexec, instead of leaving it so.
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

// resources translates cgroup settings, each into NRI's "unified" map, which every
// runtime writes as it is, last of all, and keeps in the container's spec: so it
// also outlives kubelet's updates while the agent is away.
//
// Where a typed field means exactly the same, it is set as well. NRI then detects
// that another plugin wants the field, and it is written before "unified", whose
// order is random: cpu.max.burst is only valid with a cpu.max that is as large.
//
// The other typed fields do not say the same as the file, or do not arrive
// (containerd 2.4, NRI 0.12, runc 1.5):
//
//	cpu.weight       shares are converted to weights with rounding
//	memory.low       reservation is dropped when the spec is adjusted
//	memory.swap.max  swap is overwritten with the memory limit
//	hugetlb.*.max    dropped by containerd's default disable_hugetlb_controller;
//	                 where not, runc also sets hugetlb.*.rsvd.max
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

// number reads a value that package api has checked. The OCI runtime
// specification writes "max" as -1.
func number(value string) int64 {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// kubeletOwned returns the settings that kubelet's updates overwrite.
func kubeletOwned(settings []api.CgroupSetting) []api.CgroupSetting {
	var owned []api.CgroupSetting
	for _, s := range settings {
		if file, ok := api.LookupCgroupFile(s.File); ok && file.KubeletOwned {
			owned = append(owned, s)
		}
	}
	return owned
}
