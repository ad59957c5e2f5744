package doctor

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"strings"
	"testing"
	"testing/fstest"
)

func TestKubelet(t *testing.T) {
	const flags = "/usr/bin/kubelet\x00--config=/var/lib/kubelet/config.yaml\x00"
	runs := map[string]string{"proc/300/comm": "kubelet\n", "proc/300/cmdline": flags}
	runsWith := func(path, content string) change {
		files := maps.Clone(runs)
		files[path] = content
		return with(files)
	}
	exe := also(fstest.MapFS{"proc/300/exe": {Data: []byte("/usr/bin/kubelet"),
		Mode: fs.ModeSymlink}})
	link := both(exe, func(m *Machine) { m.Version = kubeletVersion })
	expect(t, map[string]expectation{
		"none":         {with(nil), "kubelet", Note, "no process"},
		"several":      {runsWith("proc/301/comm", "kubelet"), "kubelet", Unknown, "several"},
		"without root": {with(runs), "kubelet", Unknown, "run as root"},
		"configured": {
			both(runsWith("var/lib/kubelet/config.yaml", "cgroupDriver: cgroupfs\n"), link),
			"kubelet", OK, "v1.37.1, cgroup driver cgroupfs",
		},
		"systemd": {
			both(runsWith("sys/fs/cgroup/kubepods.slice/cgroup.subtree_control", "cpu"), link),
			"kubelet", OK, "v1.37.1, cgroup driver systemd",
		},
		"no driver": {both(runsWith("var/lib/kubelet/config.yaml", "a: b"), link), "kubelet", OK,
			"cgroup driver unknown"},
		"not its file": {both(with(runs), both(exe, noProgramRuns)), "kubelet", Unknown,
			"users other than root"},
	})
}

// kubeletVersion runs only kubelet.
func kubeletVersion(_ context.Context, path string, pid int) (string, error) {
	if strings.HasSuffix(path, "runc") {
		return "", nil
	}
	if path != "/usr/bin/kubelet" || pid != 300 {
		return "", errors.New("another program was run")
	}
	return "Kubernetes v1.37.1\n", nil
}

// One of several processes called containerd may run in a container. Only the listening one
// counts.
func TestProcessOfContainerd(t *testing.T) {
	unknown := runtimeRuns("containerd", "2.4.2", 0)
	if f := examine(t, unknown)["default-memlock"]; f.Status != OK {
		t.Errorf("%+v", f)
	}
	if f := examine(t, unknown, with(file("proc/101/comm", "containerd")),
		unknown)["default-memlock"]; f.Status != Unknown {
		t.Errorf("%+v", f)
	}
	if f := examine(t, with(file("proc/101/comm", "containerd")))["default-memlock"]; f.Status !=
		OK {
		t.Errorf("%+v", f)
	}
}

func FuzzParseMemlock(f *testing.F) {
	f.Add(limitsOf8Mi)
	f.Add("Max locked memory unlimited unlimited bytes")
	f.Add("Max locked memory         x")
	f.Fuzz(func(t *testing.T, text string) {
		if r, ok := parseMemlock(text); ok && !strings.Contains(text, memlockName) {
			t.Errorf("%+v of %q", r, text)
		}
	})
}

func FuzzCapabilities(f *testing.F) {
	f.Add("Name:\tx\nCapEff:\t0000000001000000\n")
	f.Add("CapEff: -1")
	f.Fuzz(func(t *testing.T, text string) {
		if _, ok := parseCapabilities(text); ok && !strings.Contains(text, "CapEff:") {
			t.Errorf("read of %q", text)
		}
	})
}
