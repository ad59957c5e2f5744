package doctor

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
)

func TestKubelet(t *testing.T) {
	const flags = "/usr/bin/kubelet\x00--config=/var/lib/kubelet/config.yaml\x00"
	runs := map[string]string{"proc/300/comm": "kubelet\n", "proc/300/cmdline": flags}
	both := func(more map[string]string) map[string]string {
		for path, content := range runs {
			if _, ok := more[path]; !ok {
				more[path] = content
			}
		}
		return more
	}
	link := func(m *Machine) {
		m.Root.(fstest.MapFS)["proc/300/exe"] = &fstest.MapFile{Data: []byte("/usr/bin/kubelet"), Mode: fs.ModeSymlink}
		m.Version = func(_ context.Context, path string, pid int) (string, error) {
			if strings.HasSuffix(path, "runc") {
				return "", nil
			}
			if path != "/usr/bin/kubelet" || pid != 300 {
				return "", errors.New("asked for another program")
			}
			return "Kubernetes v1.37.1\n", nil
		}
	}
	for name, test := range map[string]struct {
		change []func(*Machine)
		status Status
		want   string
	}{
		"none":         {nil, Note, "no process"},
		"several":      {[]func(*Machine){with(both(file("proc/301/comm", "kubelet")))}, Unknown, "several"},
		"without root": {[]func(*Machine){with(runs)}, Unknown, "run as root"},
		"configured": {
			[]func(*Machine){with(both(file("var/lib/kubelet/config.yaml", "cgroupDriver: cgroupfs\n"))), link},
			OK, "v1.37.1, cgroup driver cgroupfs",
		},
		"systemd": {
			[]func(*Machine){with(both(file("sys/fs/cgroup/kubepods.slice/cgroup.subtree_control", "cpu"))), link}, OK, "v1.37.1, cgroup driver systemd",
		},
		"no driver":    {[]func(*Machine){with(both(file("var/lib/kubelet/config.yaml", "a: b"))), link}, OK, "cgroup driver unknown"},
		"not its file": {[]func(*Machine){with(runs), link, func(m *Machine) { m.Version = failing }}, Unknown, "others than root"},
	} {
		f := examine(t, test.change...)["kubelet"]
		if f.Status != test.status || !strings.Contains(f.Found+f.Means+f.Mend, test.want) {
			t.Errorf("%s: %+v, want %s and %q", name, f, test.status, test.want)
		}
	}
}

// Where several processes are called containerd, one may be a container's: then it
// is the one that listens, or none.
func TestProcessOfContainerd(t *testing.T) {
	unknown := func(m *Machine) {
		m.Runtime = func(context.Context) (Runtime, error) { return Runtime{"containerd", "2.4.2", 0}, nil }
	}
	if f := examine(t, unknown)["default-memlock"]; f.Status != OK {
		t.Errorf("%+v", f)
	}
	if f := examine(t, unknown, with(file("proc/101/comm", "containerd")), unknown)["default-memlock"]; f.Status != Unknown {
		t.Errorf("%+v", f)
	}
	if f := examine(t, with(file("proc/101/comm", "containerd")))["default-memlock"]; f.Status != OK {
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
		if _, ok := capabilities(text); ok && !strings.Contains(text, "CapEff:") {
			t.Errorf("read of %q", text)
		}
	})
}
