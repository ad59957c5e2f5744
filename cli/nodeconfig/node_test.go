package nodeconfig

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/deploy/containerd"
)

const (
	k3sDir  = "/var/lib/rancher/k3s/agent/etc/containerd"
	rke2Dir = "/var/lib/rancher/rke2/agent/etc/containerd"

	// The stand-in reads files below the root, so imports are relative.
	importing = "version = 3\nimports = ['conf.d/*.toml']\n"
	generated = "version = 3\n[plugins.'io.containerd.nri.v1.nri']\n  disable = false\n"
	importsV3 = "version = 3\nimports = ['config-v3.toml.d/*.toml']\n"
)

// layout is a node of one flavour before Mooring.
type layout struct {
	files    map[string]string
	program  string // containerd
	socket   string
	writes   string // the only changed file
	restarts string // the unit
}

func layouts() map[string]layout {
	const (
		plain   = "/usr/bin/containerd"
		local   = "/usr/local/bin/containerd"
		k3s     = "/var/lib/rancher/k3s/data/current/bin/containerd"
		rke2    = "/var/lib/rancher/rke2/bin/containerd"
		socket  = "/run/containerd/containerd.sock"
		rancher = "/run/k3s/containerd/containerd.sock"
	)
	return map[string]layout{
		"kubeadm": {map[string]string{"/etc/containerd/config.toml": importing},
			plain, socket, "/etc/containerd/conf.d/mooring.toml", "containerd.service"},
		"kind": {map[string]string{"/etc/containerd/config.toml": importing, "/kind/version": "v1"},
			local, socket, "/etc/containerd/conf.d/mooring.toml", "containerd.service"},
		"k3s": {map[string]string{k3sDir + "/config.toml": generated},
			k3s, rancher, k3sDir + "/config-v3.toml.tmpl", "k3s-agent.service"},
		"k3s with a directory": {map[string]string{k3sDir + "/config.toml": importsV3},
			k3s, rancher, k3sDir + "/config-v3.toml.d/mooring.toml", "k3s-agent.service"},
		"k3s server beside an unused containerd": {map[string]string{
			k3sDir + "/config.toml": generated, "/var/lib/rancher/k3s/server/token": "x",
			"/etc/containerd/config.toml": importing},
			k3s, rancher, k3sDir + "/config-v3.toml.tmpl", "k3s.service"},
		"k3s with a template": {map[string]string{k3sDir + "/config.toml": generated,
			k3sDir + "/config-v3.toml.tmpl": `{{ template "base" . }}` + "\n[debug]"},
			k3s, rancher, k3sDir + "/config-v3.toml.tmpl", "k3s-agent.service"},
		"k3s with an old template": {map[string]string{
			k3sDir + "/config.toml":      "version = 2\n",
			k3sDir + "/config.toml.tmpl": baseTemplate},
			k3s, rancher, k3sDir + "/config.toml.tmpl", "k3s-agent.service"},
		"rke2": {map[string]string{rke2Dir + "/config.toml": generated},
			rke2, rancher, rke2Dir + "/config-v3.toml.tmpl", "rke2-agent.service"},
		"rke2 server with a directory": {map[string]string{rke2Dir + "/config.toml": importsV3,
			"/var/lib/rancher/rke2/server/token": "x"},
			rke2, rancher, rke2Dir + "/config-v3.toml.d/mooring.toml", "rke2-server.service"},
	}
}

func (l layout) node(t *testing.T) *fixture {
	t.Helper()
	f := newFixture(t, l.files)
	f.containerd(t, l.program, "2.4.2")
	f.write(t, l.socket, "")
	past := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(f.root, l.socket), past, past); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestFlavours runs configure twice on a node of each flavour, and then undo.
func TestFlavours(t *testing.T) {
	for name, l := range layouts() {
		t.Run(name, func(t *testing.T) {
			f := l.node(t)
			before := f.files(t)
			if err := f.Configure(t.Context()); err != nil {
				t.Fatal(err)
			}
			configured := f.files(t)
			want := []string{l.writes}
			if _, existed := l.files[l.writes]; existed {
				want = append(want, l.writes+backupSuffix)
			}
			if got := changed(before, configured); !slices.Equal(got, want) {
				t.Errorf("changed %q, want %q", got, want)
			}
			if !strings.Contains(configured[l.writes], table()) {
				t.Errorf("%s lacks the table: %s", l.writes, configured[l.writes])
			}
			if want := "systemctl restart " + l.restarts; !strings.HasSuffix(f.output(), want) {
				t.Errorf("printed %q, want %q at its end", f.output(), want)
			}
			f.Restart = true
			if err := f.Configure(t.Context()); err != nil {
				t.Fatal(err)
			}
			if again := changed(configured, f.files(t)); len(again) > 0 {
				t.Errorf("the second run changed %q", again)
			}
			if err := f.Undo(t.Context()); err != nil {
				t.Fatal(err)
			}
			if left := changed(before, f.files(t)); len(left) > 0 {
				t.Errorf("--undo left %q changed", left)
			}
			once := "restart " + l.restarts
			if !slices.Equal(f.started, []string{once, once}) {
				t.Errorf("ran systemctl %q, want %q after each change", f.started, once)
			}
		})
	}
}

// TestRefusals expects an error with the file, the value and the remedy, and an unchanged node.
func TestRefusals(t *testing.T) {
	kubeadm := func(config string) map[string]string {
		return map[string]string{"/etc/containerd/config.toml": config}
	}
	tests := map[string]struct {
		files   map[string]string
		flavour string
		version string
		want    []string
	}{
		"no containerd": {nil, "", "2.4.2", []string{"/etc/containerd exists", "--flavour"}},
		"unknown flavour": {nil, "k0s", "2.4.2",
			[]string{`"k0s"`, "want k3s, rke2, kind, kubeadm"}},
		"no configuration": {map[string]string{"/etc/containerd/README": ""}, "", "2.4.2",
			[]string{"there is no /etc/containerd/config.toml", "containerd config default >"}},
		"not generated yet": {map[string]string{k3sDir + "/README": ""}, "", "2.4.2",
			[]string{"there is no " + k3sDir + "/config.toml", "start k3s once"}},
		"no program": {kubeadm(importing), "rke2", "2.4.2",
			[]string{"/var/lib/rancher/rke2/bin/containerd", "--containerd"}},
		"containerd 1.7": {kubeadm(importing), "", "1.7.24~ds1",
			[]string{"containerd 1.7.24~ds1 has no validator", "want 2.2 or newer"}},
		"containerd 2.1": {kubeadm(importing), "", "v2.1.5-k3s1",
			[]string{"containerd v2.1.5-k3s1 has no validator", "want 2.2 or newer"}},
		"no version": {kubeadm(importing), "", "main", []string{"--version printed", "main"}},
		"no imports": {kubeadm("version = 3\n"), "", "2.4.2",
			[]string{"config.toml imports no files", "add this line at its top: " +
				"imports = ['/etc/containerd/conf.d/*.toml']"}},
		"other imports": {kubeadm("version = 3\nimports = ['other/*.toml']\n"), "", "2.4.2",
			[]string{`has imports = ["other/*.toml"]`, "want '/etc/containerd/conf.d/*.toml'"}},
		"NRI is off": {kubeadm(importing + "[plugins.'io.containerd.nri.v1.nri']\ndisable = true"),
			"", "2.4.2", []string{"/etc/containerd/config.toml", "disable = true",
				"want disable = false"}},
		"no TOML": {kubeadm("version = = 3\n"), "", "2.4.2",
			[]string{"nothing was changed", "/etc/containerd/config.toml", "column 11"}},
		"a template with a validator": {map[string]string{k3sDir + "/config.toml": generated,
			k3sDir + "/config-v3.toml.tmpl": baseTemplate +
				"[plugins.'io.containerd.nri.v1.nri'.default_validator]\n"}, "", "2.4.2",
			[]string{k3sDir + "/config-v3.toml.tmpl already has", "set enable = true"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, tt.files)
			f.Flavour = tt.flavour
			f.containerd(t, "/usr/bin/containerd", tt.version)
			f.containerd(t, "/var/lib/rancher/k3s/data/current/bin/containerd", tt.version)
			before := f.files(t)
			err := f.Configure(t.Context())
			for _, want := range tt.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error %v, want %q in it", err, want)
				}
			}
			if got := changed(before, f.files(t)); len(got) > 0 {
				t.Errorf("changed %q", got)
			}
		})
	}
}

func TestNoRoot(t *testing.T) {
	f := newFixture(t, map[string]string{"/file": ""})
	for root, want := range map[string]string{"/none": "no such file", "/file": "want a directory"} {
		f.Root = f.root + root
		if err := f.Configure(t.Context()); err == nil ||
			!strings.Contains(err.Error(), `--root "`+f.Root+`": `) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}

// TestFailedValidation expects the replaced file back if containerd refuses the new configuration.
// The failure is a script that refuses Mooring's file.
func TestFailedValidation(t *testing.T) {
	const refuse = "case $1 in --version) echo containerd x 2.4.2;; " +
		"*) if grep -rqs default_validator \"$(dirname \"$2\")\"; then " +
		"echo first >&2; echo no memory >&2; exit 1; fi;; esac"
	for name, l := range layouts() {
		for _, backup := range []string{"", "older"} {
			t.Run(name+backup, func(t *testing.T) {
				f := l.node(t)
				f.script(t, l.program, refuse)
				if _, existed := l.files[l.writes]; !existed {
					f.write(t, l.writes, "# mine\n")
				}
				if backup != "" {
					f.write(t, l.writes+backupSuffix, backup)
				}
				before := f.files(t)
				err := f.Configure(t.Context())
				if err == nil || !strings.Contains(err.Error(), l.writes+" was not changed: ") ||
					!strings.HasSuffix(err.Error(), "exit status 1: no memory") {
					t.Errorf("error %v", err)
				}
				if got := changed(before, f.files(t)); len(got) > 0 {
					t.Errorf("changed %q", got)
				}
			})
		}
	}
}

// A cluster may have enabled the validator itself, such as kind with containerdConfigPatches.
func TestEnabledAlready(t *testing.T) {
	enabled := "\n[plugins.'io.containerd.nri.v1.nri'.default_validator]\nenable = true\n"
	for name, files := range map[string]map[string]string{
		"kind": {"/etc/containerd/config.toml": "version = 3" + enabled, "/kind/version": ""},
		"other file": {"/etc/containerd/config.toml": importing,
			"/etc/containerd/conf.d/a.toml": enabled},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, files)
			f.containerd(t, "/usr/bin/containerd", "2.2.0")
			before := f.files(t)
			if err := f.Configure(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := changed(before, f.files(t)); len(got) > 0 ||
				!strings.Contains(f.output(), "enables the validator already") {
				t.Errorf("changed %q, printed %q", got, f.output())
			}
		})
	}
}

// TestOlderRelease replaces the setting of an older release. It needs no backup.
func TestOlderRelease(t *testing.T) {
	first, _, _ := strings.Cut(containerd.DropIn, "\n")
	for name, older := range map[string]string{
		"kubeadm": first + "\nversion = 3\n",
		"k3s":     baseTemplate + blockStart + "# nothing yet\n" + blockEnd,
	} {
		t.Run(name, func(t *testing.T) {
			l := layouts()[name]
			f := l.node(t)
			before := f.files(t)
			f.write(t, l.writes, older)
			if err := f.Configure(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := changed(before, f.files(t)); !slices.Equal(got, []string{l.writes}) {
				t.Errorf("changed %q, want %q", got, l.writes)
			}
			if err := f.Undo(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := changed(before, f.files(t)); len(got) > 0 {
				t.Errorf("--undo left %q changed", got)
			}
		})
	}
}

// TestUndoKeepsLaterChanges removes the block from a template that its owner has changed since.
func TestUndoKeepsLaterChanges(t *testing.T) {
	l := layouts()["k3s with a template"]
	f := l.node(t)
	if err := f.Configure(t.Context()); err != nil {
		t.Fatal(err)
	}
	content, err := f.read(l.writes)
	if err != nil {
		t.Fatal(err)
	}
	f.write(t, l.writes, *content+"# later\n")
	if err := f.Undo(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := f.read(l.writes)
	if want := l.files[l.writes] + "# later\n"; err != nil || text(got) != want {
		t.Errorf("%v, %q, want %q", err, text(got), want)
	}
}

func TestDryRun(t *testing.T) {
	for name, l := range layouts() {
		t.Run(name, func(t *testing.T) {
			f := l.node(t)
			f.DryRun, f.Restart = true, true
			before := f.files(t)
			if err := f.Configure(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"would write " + l.writes + ":", "+   enable = true",
				"would run systemctl restart " + l.restarts} {
				if !slices.Contains(f.printed, want) {
					t.Errorf("printed %q, want %q", f.printed, want)
				}
			}
			if got := changed(before, f.files(t)); len(got) > 0 || len(f.started) > 0 {
				t.Errorf("changed %q, ran systemctl %q", got, f.started)
			}
			f.DryRun = false
			if err := f.Configure(t.Context()); err != nil {
				t.Fatal(err)
			}
			f.DryRun, f.printed = true, nil
			before = f.files(t)
			if err := f.Undo(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := changed(before, f.files(t)); len(got) > 0 ||
				!slices.Contains(f.printed, "-   enable = true") {
				t.Errorf("--undo changed %q, printed %q", got, f.printed)
			}
		})
	}
}

// A failed restart can be repeated: containerd runs since before the change.
func TestRestart(t *testing.T) {
	f := layouts()["kubeadm"].node(t)
	f.Restart, f.failure = true, errors.New("no bus")
	for range 2 {
		if err := f.Configure(t.Context()); err == nil || !strings.Contains(err.Error(),
			`run "systemctl restart containerd.service" on the node: no bus`) {
			t.Errorf("error %v", err)
		}
	}
	f.write(t, "/run/containerd/containerd.sock", "restarted")
	f.failure, f.started = nil, nil
	if err := f.Configure(t.Context()); err != nil || len(f.started) > 0 {
		t.Errorf("%v, ran systemctl %q after containerd's start", err, f.started)
	}
	if err := os.Remove(filepath.Join(f.root, "/run/containerd/containerd.sock")); err != nil {
		t.Fatal(err)
	}
	if err := f.Configure(t.Context()); err != nil || len(f.started) > 0 {
		t.Errorf("%v, ran systemctl %q for a containerd that does not run", err, f.started)
	}
}

// TestLinksStayBelowTheRoot has absolute links, as k3s has for its programs.
func TestLinksStayBelowTheRoot(t *testing.T) {
	f := newFixture(t, map[string]string{"/opt/etc/config.toml": importing})
	f.write(t, "/opt/bin/containerd", "")
	for _, dir := range []string{"/etc", "/usr"} {
		if err := os.Mkdir(filepath.Join(f.root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"/etc/containerd": "/opt/etc", "/usr/bin": "/opt/bin"} {
		if err := os.Symlink(to, filepath.Join(f.root, link)); err != nil {
			t.Fatal(err)
		}
	}
	const dropIn = "/opt/etc/conf.d/mooring.toml"
	f.Run = enabledAfter(dropIn, f)
	before := f.files(t)
	if err := f.Configure(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := changed(before, f.files(t)); !slices.Equal(got, []string{dropIn}) {
		t.Errorf("changed %q, want %q", got, dropIn)
	}
}

// TestRealContainerd lets the machine's containerd check the configurations.
func TestRealContainerd(t *testing.T) {
	program, err := exec.LookPath("containerd")
	if err != nil {
		t.Skip("missing: containerd")
	}
	for _, name := range []string{"kubeadm", "k3s", "k3s with a directory"} {
		t.Run(name, func(t *testing.T) {
			l := layouts()[name]
			f := l.node(t)
			f.script(t, l.program, "exec "+program+" \"$@\"")
			r := runtime{run: f.run, program: l.program}
			if err := r.checkVersion(t.Context()); err != nil {
				t.Skip(err)
			}
			before := f.files(t)
			for range 2 {
				if err := f.Configure(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if got := changed(before, f.files(t)); !slices.Equal(got, []string{l.writes}) {
				t.Errorf("changed %q, want %q", got, l.writes)
			}
		})
	}
}
