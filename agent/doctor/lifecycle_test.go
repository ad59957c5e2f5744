package doctor

import (
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/mooring-vm/mooring/api/agentapi"
)

const libvirtPolicy = "apiVersion: mooring.dev/v1alpha1\nkind: NodePolicy\nlifecycle: {libvirt: " +
	"{records: /run/v/qemu, socket: /run/v/sock}}\n"

// withLibvirt adds a policy that names a libvirt, and the given entries of this libvirt.
func withLibvirt(entries fstest.MapFS) change {
	return both(with(file("etc/mooring/policy.yaml", libvirtPolicy)), also(entries))
}

func TestLifecycleFindings(t *testing.T) {
	records, socket := &fstest.MapFile{Mode: fs.ModeDir | 0o755},
		&fstest.MapFile{Mode: fs.ModeSocket}
	expect(t, map[string]expectation{
		"no bpffs": {
			with(file("proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n")), "bpffs", Problem,
			"mount -t bpf"},
		"another file system": {with(file("proc/mounts", "tmpfs /sys/fs/bpf tmpfs rw 0 0\n")),
			"bpffs", Problem, "no bpffs at /sys/fs/bpf"},
		"no mounts": {with(file("proc/mounts", "")), "bpffs", Unknown, "procfs"},
		"no hook": {with(file("usr/local/libexec/mooring/mooring-hook", "")), "hook",
			Problem, "docs/how-to/install.md"},
		"hook for root only":  {hookMode(0o700), "hook", Problem, "0755"},
		"hook is a directory": {hookMode(fs.ModeDir | 0o755), "hook", Problem, "drwxr-xr-x"},
		"policy is none": {with(file("etc/mooring/policy.yaml", "x")), "node-libvirt",
			Unknown, "mooring policy check /etc/mooring/policy.yaml"},
		"policy names none": {
			with(file("etc/mooring/policy.yaml", strings.Split(libvirtPolicy, "lifecycle")[0])),
			"node-libvirt", OK, "names no libvirt"},
		"libvirt": {
			withLibvirt(fstest.MapFS{"run/v/qemu": records, "run/v/sock": socket}), "node-libvirt",
			OK, "/run/v/qemu and /run/v/sock"},
		"libvirt never ran": {withLibvirt(nil), "node-libvirt", Problem, "no /run/v/qemu"},
		"libvirt does not run": {withLibvirt(fstest.MapFS{"run/v/qemu": records}), "node-libvirt",
			Problem, "no request to shut down"},
		"records are no folder": {
			withLibvirt(fstest.MapFS{"run/v/qemu": socket, "run/v/sock": socket}), "node-libvirt",
			Problem, "/run/v/qemu is not a directory"},
		"socket is none": {withLibvirt(fstest.MapFS{"run/v/qemu": records, "run/v/sock": {}}),
			"node-libvirt", Problem, "/run/v/sock is not a socket"},
		"no tracker": {agentIs(func(a *Agent) {
			a.Tracker = agentapi.Tracker{Error: "load: no BTF"}
		}), "tracker", Problem, "load: no BTF"},
		"agent away": {noAgent(errors.New("no answer")), "tracker", Note, "not installed"},
		"no CAP_BPF": {with(file("proc/200/status", "CapEff:\t0000004001000020")),
			"agent-capabilities", Problem, "not tracked"},
		"no CAP_KILL": {with(file("proc/200/status", "CapEff:\t000000c001000000")),
			"agent-capabilities", Problem, "not ended"},
	})
}

func hookMode(mode fs.FileMode) change {
	return also(fstest.MapFS{"usr/local/libexec/mooring/mooring-hook": {Mode: mode}})
}

func TestLifecyclePartsBeforeInstallation(t *testing.T) {
	findings := examine(t, noAgent(errors.New("not running")), with(map[string]string{
		"proc/mounts":                            "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n",
		"usr/local/libexec/mooring/mooring-hook": "",
	}))
	for check, want := range map[string]Status{"bpffs": Note, "hook": Note, "node-libvirt": OK} {
		if f := findings[check]; f.Status != want {
			t.Errorf("%+v, want %s", f, want)
		}
	}
}
