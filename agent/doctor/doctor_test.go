package doctor

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/mooring-vm/mooring/api/agentapi"
)

func TestGoodNode(t *testing.T) {
	for name, f := range examine(t) {
		want := OK
		if name == "failure-policy" || name == "kubelet" {
			want = Note
		}
		if f.Status != want {
			t.Errorf("%+v, want %s", f, want)
		}
	}
}

func TestEmptyMachineHasNoProblemButNRI(t *testing.T) {
	for name, f := range examine(t, func(m *Machine) { *m = Machine{Root: fstest.MapFS{}} }) {
		if f.Status == Problem && name != "nri" {
			t.Errorf("%+v", f)
		}
	}
}

func TestFindings(t *testing.T) {
	expect(t, map[string]expectation{
		"kernel before openat2": {with(file("proc/sys/kernel/osrelease", "5.4.0-1")), "kernel",
			Problem, "openat2"},
		"kernel before eBPF": {with(file("proc/sys/kernel/osrelease", "5.10.0")), "kernel",
			Note, "not tracked"},
		"kernel of 64 KiB": {with(file("proc/sys/kernel/osrelease", "5.15.0-91-generic")),
			"kernel", Note, "64 KiB"},
		"kernel of no number": {with(file("proc/sys/kernel/osrelease", "custom")), "kernel",
			Unknown, "custom"},
		"no BTF": {with(file("sys/kernel/btf/vmlinux", "")), "btf", Note,
			"CONFIG_DEBUG_INFO_BTF"},
		"cgroup v1": {
			with(file("proc/mounts", "t /sys/fs/cgroup tmpfs rw 0 0\nc /sys/fs/cgroup/cpu cgroup "+
				"rw 0 0")), "cgroup-v2", Problem, "unified_cgroup_hierarchy"},
		"cgroup hybrid": {
			with(file("proc/mounts", "c /sys/fs/cgroup cgroup2 rw 0 0\nc /mnt cgroup rw 0 0")),
			"cgroup-v2", Note, "v1 hierarchies"},
		"no cgroups": {with(file("proc/mounts", "proc /proc proc rw 0 0")),
			"cgroup-v2", Problem, "no cgroup v2"},
		"no memory controller": {with(file("sys/fs/cgroup/cgroup.controllers", "cpu pids")),
			"cgroup-controllers", Problem, "no memory controller"},
		"controllers for pods": {with(file("sys/fs/cgroup/kubepods.slice/cgroup.subtree_control",
			"cpuset cpu io memory pids")), "cgroup-controllers", Note, "hugetlb"},
		"all controllers": {
			with(file("sys/fs/cgroup/kubepods/cgroup.subtree_control",
				"cpuset cpu io memory hugetlb pids")), "cgroup-controllers", OK, "kubepods"},
		"memlock of 64 KiB": {
			with(file("proc/100/limits", strings.ReplaceAll(limitsOf8Mi, "8388608", "65536  "))),
			"default-memlock", Note, "soft 64Ki"},
		"memlock unlimited": {
			with(file("proc/100/limits", strings.ReplaceAll(limitsOf8Mi, "8388608", "unlimited"))),
			"default-memlock", Note, "LimitMEMLOCK=infinity"},
		"memlock unreadable": {with(file("proc/100/limits", "")), "default-memlock", Unknown,
			"cannot be read"},
		"no OCI runtime": {with(file("usr/bin/runc", "")), "oci-runtime", Unknown,
			"neither runc nor crun"},
		"old runc": {versionIs("runc version 1.1.15+ds1"), "oci-runtime", Note,
			"hostUsers"},
		"untrusted runc": {noProgramRuns, "oci-runtime", OK, "users other than root"},
		"no tmpfs":       {noPodDirs, "pod-directories", Problem, "run-mooring.mount"},
		"a capability less": {with(file("proc/200/status", "CapEff:\t0000000000000000")),
			"agent-capabilities", Problem, "CAP_SYS_RESOURCE"},
		"a capability more": {with(file("proc/200/status", "CapEff:\t000000c001200020")),
			"agent-capabilities", Note, "others"},
		"no capability line": {with(file("proc/200/status", "CapEff: x")),
			"agent-capabilities", Unknown, "CapEff"},
		"agent in mode observe": {agentIs(func(a *Agent) { a.Mode = "observe" }), "agent", Note,
			"mode: enforce"},
		"agent without a runtime": {agentIs(func(a *Agent) {
			a.NRI.State = agentapi.NRIDisconnected
		}), "agent", Problem, "no connection"},
		"neighbour": {peersAre([]Process{{200, "mooring-agent"}, {7, "adjuster"}}, nil),
			"neighbours", Note, "connected: adjuster (pid 7)"},
		"neighbour, and more": {peersAre([]Process{{7, "adjuster"}},
			errors.New("1 of 2 could not be found")), "neighbours", Note, "there may be more"},
		"unknown neighbours": {peersAre(nil, fs.ErrPermission), "neighbours", Unknown,
			"run as root"},
		"installed neighbour": {
			with(map[string]string{"opt/nri/plugins/10-other": "x",
				"etc/nri/conf.d/other.conf": "x", "opt/nri/plugins/README": "x"}), "neighbours",
			Note, "containerd: 10-other (/etc/nri/conf.d/other.conf)"},
	})
}

// A missing part of Mooring is a problem only once Mooring is installed.
func TestMissingPartsBeforeAndAfterInstallation(t *testing.T) {
	away := []change{noAgent(errors.New("not running")), noPodDirs}
	before := examine(t, append(away, with(file("etc/containerd/conf.d/m.toml", "")))...)
	after := examine(t, append(away,
		with(map[string]string{"etc/containerd/conf.d/m.toml": "",
			"etc/mooring/policy.yaml": "x"}))...)
	for _, check := range []string{"agent", "pod-directories", "validator"} {
		if before[check].Status != Note || after[check].Status != Problem {
			t.Errorf("before: %+v, after: %+v", before[check], after[check])
		}
	}
	if f := examine(t, noAgent(fs.ErrPermission))["agent"]; f.Status != Unknown {
		t.Errorf("without root: %+v", f)
	}
}
