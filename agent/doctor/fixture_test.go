package doctor

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/containerd/containerd/v2/cmd/containerd/server/config"

	"github.com/mooring-vm/mooring/api/agentapi"
)

const limitsOf8Mi = "Limit                     Soft Limit           Hard Limit           Units " +
	"    \n" +
	"Max locked memory         8388608              8388608              bytes     \n"

// goodFiles are the files of a node without problems and without kubelet.
func goodFiles() map[string]string {
	return map[string]string{
		"proc/sys/kernel/osrelease": "6.12.48+deb13-cloud-amd64\n",
		"proc/mounts": "proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup " +
			"cgroup2 rw,nosuid 0 0\nbpf /sys/fs/bpf bpf rw 0 0\n",
		"proc/100/comm":                    "containerd\n",
		"proc/100/cmdline":                 "/usr/bin/containerd\x00",
		"proc/100/limits":                  limitsOf8Mi,
		"proc/200/status":                  "Name:\tmooring-agent\nCapEff:\t000000c001000020\n",
		"sys/kernel/btf/vmlinux":           "BTF",
		"sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory hugetlb pids\n",
		"etc/containerd/config.toml":       "version = 3\nimports = ['conf.d/*.toml']\n",
		"etc/containerd/conf.d/m.toml":     "[plugins.'io.containerd.nri.v1.nri'.default_validator]\n  enable = true\n",
		"usr/bin/runc":                     "ELF",

		"usr/local/libexec/mooring/mooring-hook": "ELF",
	}
}

func filesOf(files map[string]string) fstest.MapFS {
	root := fstest.MapFS{"var/run/nri/nri.sock": {Mode: fs.ModeSocket}}
	for path, content := range files {
		if content != "" {
			root[path] = &fstest.MapFile{Data: []byte(content), Mode: 0o755}
		}
	}
	return root
}

func goodMachine() Machine {
	return Machine{
		Root:    filesOf(goodFiles()),
		Runtime: runtimeOf(Runtime{"containerd", "v2.4.2", 100}, nil),
		Agent: func(context.Context) (Agent, error) {
			node := agentapi.Node{Version: "v1", Mode: "enforce",
				Policy: "/etc/mooring/policy.yaml"}
			node.NRI.State = agentapi.NRISynchronized
			node.Tracker = agentapi.Tracker{Available: true, Processes: 3, MaxProcesses: 1000}
			return Agent{node, 200}, nil
		},
		PodDirs: func() error { return nil },
		IOMMUFD: func() ([]int, error) { return nil, nil },
		Peers:   func(string) ([]Process, error) { return []Process{{200, "mooring-agent"}}, nil },
		Version: func(context.Context, string,
			int) (string, error) {
			return "runc version 1.3.0\nspec: 1.2.1\n", nil
		},
	}
}

func runtimeOf(r Runtime, err error) func(context.Context) (Runtime, error) {
	return func(context.Context) (Runtime, error) { return r, err }
}

// change makes a machine differ from the good one. A change of all files must come before
// changes of single files.
type change = func(*Machine)

func both(first, second change) change {
	return func(m *Machine) {
		first(m)
		second(m)
	}
}

// with gives files another content. An empty content removes the file.
func with(files map[string]string) change {
	return func(m *Machine) {
		all := goodFiles()
		maps.Copy(all, files)
		m.Root = filesOf(all)
	}
}

func file(path, content string) map[string]string { return map[string]string{path: content} }

// also adds entries to the root, such as sockets and directories.
func also(more fstest.MapFS) change {
	return func(m *Machine) { maps.Copy(m.Root.(fstest.MapFS), more) }
}

func runtimeIs(name, version string) change { return runtimeRuns(name, version, 100) }

// runtimeRuns is runtimeIs with the runtime's process. A pid of 0 means unknown.
func runtimeRuns(name, version string, pid int) change {
	return func(m *Machine) { m.Runtime = runtimeOf(Runtime{name, version, pid}, nil) }
}

func runtimeFails(err error) change {
	return func(m *Machine) { m.Runtime = runtimeOf(Runtime{}, err) }
}

func versionIs(text string) change {
	return func(m *Machine) {
		m.Version = func(context.Context, string, int) (string, error) { return text, nil }
	}
}

// noProgramRuns makes every program untrusted.
func noProgramRuns(m *Machine) {
	m.Version = func(context.Context, string, int) (string, error) {
		return "", errors.New("not run: users other than root may write to it")
	}
}

func noPodDirs(m *Machine) {
	m.PodDirs = func() error { return errors.New("want a tmpfs") }
}

func agentIs(change func(*Agent)) change {
	return func(m *Machine) {
		ask := m.Agent
		m.Agent = func(ctx context.Context) (Agent, error) {
			a, err := ask(ctx)
			change(&a)
			return a, err
		}
	}
}

func noAgent(err error) change {
	return func(m *Machine) {
		m.Agent = func(context.Context) (Agent, error) { return Agent{}, err }
	}
}

func peersAre(peers []Process, err error) change {
	return func(m *Machine) { m.Peers = func(string) ([]Process, error) { return peers, err } }
}

// loaderOf reads containerd's configuration from copies of the TOML files in root.
// containerd's code reads real files only.
func loaderOf(t *testing.T, root fs.FS) func(context.Context, string) (*config.Config, error) {
	t.Helper()
	dir := t.TempDir()
	err := fs.WalkDir(root, ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".toml") {
			return err
		}
		content, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		to := filepath.Join(dir, path)
		return errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, content, 0o600))
	})
	if err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context, path string) (*config.Config, error) {
		return loadConfig(ctx, filepath.Join(dir, path))
	}
}

func examine(t *testing.T, changes ...change) map[string]Finding {
	t.Helper()
	m := goodMachine()
	for _, change := range changes {
		change(&m)
	}
	m.LoadConfig = loaderOf(t, m.Root)
	r := Examine(t.Context(), m)
	findings := map[string]Finding{}
	problems := 0
	for _, f := range r.Findings {
		if f.Status == Problem {
			problems++
			if f.Mend == "" {
				t.Errorf("a problem without a remedy: %+v", f)
			}
		}
		if f.Found == "" || f.Means == "" || findings[f.Check].Check != "" {
			t.Errorf("empty, or reported twice: %+v", f)
		}
		findings[f.Check] = f
	}
	if problems != r.Problems {
		t.Errorf("%d problems, but the report counts %d", problems, r.Problems)
	}
	return findings
}

// expectation is the expected finding of one check on a machine.
type expectation struct {
	change change
	check  string
	status Status
	want   string // part of found, means or mend
}

// expect examines each machine and compares the finding of its check.
func expect(t *testing.T, all map[string]expectation) {
	t.Helper()
	for name, e := range all {
		f := examine(t, e.change)[e.check]
		if f.Status != e.status || !strings.Contains(f.Found+f.Means+f.Mend, e.want) {
			t.Errorf("%s: %+v, want %s and %q", name, f, e.status, e.want)
		}
	}
}
