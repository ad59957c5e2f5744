package doctor

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/mooring-vm/mooring/api/agentapi"
)

const limitsOf8Mi = "Limit                     Soft Limit           Hard Limit           Units     \n" +
	"Max locked memory         8388608              8388608              bytes     \n"

// goodFiles are those of a node on which all is well, but without kubelet.
func goodFiles() map[string]string {
	return map[string]string{
		"proc/sys/kernel/osrelease":        "6.12.48+deb13-cloud-amd64\n",
		"proc/mounts":                      "proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\nbpf /sys/fs/bpf bpf rw 0 0\n",
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
		Runtime: runtimeOf("containerd", "v2.4.2"),
		Agent: func(context.Context) (Agent, error) {
			node := agentapi.Node{Version: "v1", Mode: "enforce", Policy: "/etc/mooring/policy.yaml"}
			node.NRI.State = agentapi.NRISynchronized
			node.Tracker = agentapi.Tracker{Available: true, Processes: 3, MaxProcesses: 1000}
			return Agent{node, 200}, nil
		},
		PodDirs: func() error { return nil },
		Peers:   func(string) ([]Process, error) { return []Process{{200, "mooring-agent"}}, nil },
		Version: func(context.Context, string, int) (string, error) { return "runc version 1.3.0\nspec: 1.2.1\n", nil },
	}
}

func runtimeOf(name, version string) func(context.Context) (Runtime, error) {
	return func(context.Context) (Runtime, error) { return Runtime{name, version, 100}, nil }
}

// with returns the good machine with files changed; an empty one is not there.
func with(files map[string]string) func(*Machine) {
	return func(m *Machine) {
		all := goodFiles()
		maps.Copy(all, files)
		m.Root = filesOf(all)
	}
}

func examine(t *testing.T, changes ...func(*Machine)) map[string]Finding {
	t.Helper()
	m := goodMachine()
	for _, change := range changes {
		change(&m)
	}
	r := Examine(t.Context(), m)
	findings := map[string]Finding{}
	problems := 0
	for _, f := range r.Findings {
		if f.Status == Problem {
			problems++
			if f.Mend == "" {
				t.Errorf("a problem that does not say how to mend it: %+v", f)
			}
		}
		if f.Found == "" || f.Means == "" || findings[f.Check].Check != "" {
			t.Errorf("empty, or there twice: %+v", f)
		}
		findings[f.Check] = f
	}
	if problems != r.Problems {
		t.Errorf("%d problems, and %d are counted", problems, r.Problems)
	}
	return findings
}

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

// A machine of which nothing is known is no reason to fail.
func TestEmptyMachine(t *testing.T) {
	for name, f := range examine(t, func(m *Machine) { *m = Machine{Root: fstest.MapFS{}} }) {
		if f.Status == Problem && name != "nri" {
			t.Errorf("%+v", f)
		}
	}
}

func TestFindings(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Machine)
		check  string
		status Status
		want   string // part of what is found, meant or to be done
	}{
		"kernel before openat2":   {with(file("proc/sys/kernel/osrelease", "5.4.0-1")), "kernel", Problem, "openat2"},
		"kernel before eBPF":      {with(file("proc/sys/kernel/osrelease", "5.10.0")), "kernel", Note, "not tracked"},
		"kernel of 64 KiB":        {with(file("proc/sys/kernel/osrelease", "5.15.0-91-generic")), "kernel", Note, "64 KiB"},
		"kernel of no number":     {with(file("proc/sys/kernel/osrelease", "custom")), "kernel", Unknown, "custom"},
		"no BTF":                  {with(file("sys/kernel/btf/vmlinux", "")), "btf", Note, "CONFIG_DEBUG_INFO_BTF"},
		"cgroup v1":               {with(file("proc/mounts", "t /sys/fs/cgroup tmpfs rw 0 0\nc /sys/fs/cgroup/cpu cgroup rw 0 0")), "cgroup-v2", Problem, "unified_cgroup_hierarchy"},
		"cgroup hybrid":           {with(file("proc/mounts", "c /sys/fs/cgroup cgroup2 rw 0 0\nc /mnt cgroup rw 0 0")), "cgroup-v2", Note, "v1 hierarchies"},
		"no cgroups":              {with(file("proc/mounts", "proc /proc proc rw 0 0")), "cgroup-v2", Problem, "no cgroup v2"},
		"no memory controller":    {with(file("sys/fs/cgroup/cgroup.controllers", "cpu pids")), "cgroup-controllers", Problem, "no memory controller"},
		"controllers for pods":    {with(file("sys/fs/cgroup/kubepods.slice/cgroup.subtree_control", "cpuset cpu io memory pids")), "cgroup-controllers", Note, "hugetlb"},
		"all controllers":         {with(file("sys/fs/cgroup/kubepods/cgroup.subtree_control", "cpuset cpu io memory hugetlb pids")), "cgroup-controllers", OK, "kubepods"},
		"memlock of 64 KiB":       {with(file("proc/100/limits", strings.ReplaceAll(limitsOf8Mi, "8388608", "65536  "))), "default-memlock", Note, "soft 64Ki"},
		"memlock unlimited":       {with(file("proc/100/limits", strings.ReplaceAll(limitsOf8Mi, "8388608", "unlimited"))), "default-memlock", Note, "LimitMEMLOCK=infinity"},
		"memlock unreadable":      {with(file("proc/100/limits", "")), "default-memlock", Unknown, "cannot be read"},
		"no OCI runtime":          {with(file("usr/bin/runc", "")), "oci-runtime", Unknown, "neither"},
		"old runc":                {versionIs("runc version 1.1.15+ds1"), "oci-runtime", Note, "hostUsers"},
		"untrusted runc":          {func(m *Machine) { m.Version = failing }, "oci-runtime", OK, "others than root"},
		"no tmpfs":                {func(m *Machine) { m.PodDirs = func() error { return errors.New("want a tmpfs") } }, "pod-directories", Problem, "run-mooring.mount"},
		"a capability less":       {with(file("proc/200/status", "CapEff:\t0000000000000000")), "agent-capabilities", Problem, "CAP_SYS_RESOURCE"},
		"a capability more":       {with(file("proc/200/status", "CapEff:\t000000c001200020")), "agent-capabilities", Note, "others"},
		"no capability line":      {with(file("proc/200/status", "CapEff: x")), "agent-capabilities", Unknown, "CapEff"},
		"agent in mode observe":   {agentIs(func(a *Agent) { a.Mode = "observe" }), "agent", Note, "mode: enforce"},
		"agent without a runtime": {agentIs(func(a *Agent) { a.NRI.State = agentapi.NRIDisconnected }), "agent", Problem, "no connection"},
		"neighbour":               {peersAre([]Process{{200, "mooring-agent"}, {7, "adjuster"}}, nil), "neighbours", Note, "connected: adjuster (pid 7)"},
		"neighbour, and more":     {peersAre([]Process{{7, "adjuster"}}, errors.New("1 of 2 could not be found")), "neighbours", Note, "there may be more"},
		"neighbours not known":    {peersAre(nil, fs.ErrPermission), "neighbours", Unknown, "run as root"},
		"installed neighbour":     {with(map[string]string{"opt/nri/plugins/10-other": "x", "etc/nri/conf.d/other.conf": "x", "opt/nri/plugins/README": "x"}), "neighbours", Note, "containerd: 10-other (/etc/nri/conf.d/other.conf)"},
	} {
		f := examine(t, test.change)[test.check]
		if f.Status != test.status || !strings.Contains(f.Found+f.Means+f.Mend, test.want) {
			t.Errorf("%s: %+v, want %s and %q", name, f, test.status, test.want)
		}
	}
}

func file(path, content string) map[string]string { return map[string]string{path: content} }

func versionIs(text string) func(*Machine) {
	return func(m *Machine) {
		m.Version = func(context.Context, string, int) (string, error) { return text, nil }
	}
}

func failing(context.Context, string, int) (string, error) {
	return "", errors.New("not run: others than root may write to it")
}

func agentIs(change func(*Agent)) func(*Machine) {
	return func(m *Machine) {
		ask := m.Agent
		m.Agent = func(ctx context.Context) (Agent, error) {
			a, err := ask(ctx)
			change(&a)
			return a, err
		}
	}
}

func noAgent(err error) func(*Machine) {
	return func(m *Machine) {
		m.Agent = func(context.Context) (Agent, error) { return Agent{}, err }
	}
}

func peersAre(peers []Process, err error) func(*Machine) {
	return func(m *Machine) { m.Peers = func(string) ([]Process, error) { return peers, err } }
}

// What is missing before anybody installed Mooring is no problem; afterwards it is.
func TestNotInstalled(t *testing.T) {
	away := []func(*Machine){noAgent(errors.New("not running")), func(m *Machine) { m.PodDirs = func() error { return errors.New("want a tmpfs") } }}
	before := examine(t, append(away, with(file("etc/containerd/conf.d/m.toml", "")))...)
	after := examine(t, append(away, with(map[string]string{"etc/containerd/conf.d/m.toml": "", "etc/mooring/policy.yaml": "x"}))...)
	for _, check := range []string{"agent", "pod-directories", "validator"} {
		if before[check].Status != Note || after[check].Status != Problem {
			t.Errorf("before: %+v, after: %+v", before[check], after[check])
		}
	}
	if f := examine(t, noAgent(fs.ErrPermission))["agent"]; f.Status != Unknown {
		t.Errorf("without root: %+v", f)
	}
}
