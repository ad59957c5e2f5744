package doctor

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func TestContainerd(t *testing.T) {
	for version, want := range map[string]struct {
		containerd, validator, policy Status
		nri                           string
	}{
		"1.7.24":      {Note, Problem, Note, ""},
		"2.0.5":       {Note, Problem, Note, "NRI 0.6.1 or later"},
		"v2.1.9":      {Note, Problem, Note, "NRI 0.8.0 or later"},
		"v2.2.1":      {OK, OK, Note, "NRI 0.11.0"},
		"v2.4.2":      {OK, OK, Note, "NRI 0.12.3"},
		"v2.4.3":      {OK, OK, Unknown, "NRI 0.12.3 or later"},
		"2.4.2~ds1-1": {OK, OK, Note, "NRI 0.12.3"},
		"next":        {Unknown, OK, Unknown, ""},
	} {
		got := examine(t, runtimeIs("containerd", version))
		for check, status := range map[string]Status{"containerd": want.containerd,
			"validator": want.validator, "failure-policy": want.policy} {
			if got[check].Status != status {
				t.Errorf("%s: %+v, want %s", version, got[check], status)
			}
		}
		if !strings.Contains(got["nri"].Found, want.nri) {
			t.Errorf("%s: %+v, want %q", version, got["nri"], want.nri)
		}
	}
	if f := examine(t, runtimeIs("cri-o", "1.34"))["containerd"]; f.Status != Unknown {
		t.Errorf("%+v", f)
	}
}

// The module list in containerd's program wins over the release number.
func TestNRIFromBuildInfo(t *testing.T) {
	for name, test := range map[string]struct {
		deps   []*debug.Module
		err    error
		status Status
		found  string
	}{
		"newer": {[]*debug.Module{{Path: "github.com/containerd/nri", Version: "v0.12.5"}},
			nil, OK, "NRI 0.12.5"},
		"older": {[]*debug.Module{{Path: "github.com/containerd/nri", Version: "v0.11.0"}},
			nil, Note, "NRI 0.11.0, without"},
		"replaced": {[]*debug.Module{{Path: "github.com/containerd/nri", Version: "v0.1.0",
			Replace: &debug.Module{Version: "v0.12.4"}}}, nil, OK, "NRI 0.12.4"},
		"a fork": {[]*debug.Module{{Path: "github.com/containerd/nri", Version: "(devel)"}},
			nil, Note, "NRI 0.12.3, without"},
		"incomplete": {[]*debug.Module{{Path: "other", Version: "v1.0.0"}}, nil, Note,
			"NRI 0.12.3, without"},
		"no program": {nil, errors.New("no"), Note, "NRI 0.12.3, without"},
	} {
		got := examine(t, runtimeRuns("containerd", "v2.4.2", 71), func(m *Machine) {
			m.BuildInfo = func(pid int) (*debug.BuildInfo, error) {
				if pid != 71 {
					t.Errorf("build information of process %d, want 71", pid)
				}
				return &debug.BuildInfo{Deps: test.deps}, test.err
			}
		})["failure-policy"]
		if got.Status != test.status || !strings.HasPrefix(got.Found, test.found) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestOtherRuntimeHasUnknownConfiguration(t *testing.T) {
	got := examine(t, runtimeIs("cri-o", "1.34"))
	for _, check := range []string{"validator", "nri-timeouts", "failure-policy", "containerd"} {
		if f := got[check]; f.Status != Unknown || strings.Contains(f.Mend, "containerd.") {
			t.Errorf("%s: %+v", check, f)
		}
	}
}

func TestRuntimeAway(t *testing.T) {
	away := func(why error) change { return both(runtimeFails(why), noAgent(errNotChecked)) }
	noCRI := file("etc/containerd/config.toml", "disabled_plugins = ['cri']")
	known := agentIs(func(a *Agent) { a.Runtime.Name, a.Runtime.Version = "containerd", "v2.4.2" })
	expect(t, map[string]expectation{
		"away": {away(errors.New("refused")), "containerd", Problem,
			"--runtime-endpoint"},
		"without root": {away(fs.ErrPermission), "containerd", Unknown, "run as root"},
		"without CRI": {both(away(errors.New("unimplemented")), with(noCRI)), "containerd",
			Problem, "disabled_plugins"},
		"known to the agent": {both(runtimeFails(fs.ErrPermission), known), "containerd", OK,
			"containerd v2.4.2"},
	})
}

const table = "[plugins.'io.containerd.nri.v1.nri']\n"

func TestNRI(t *testing.T) {
	away := noAgent(errNotChecked)
	config := func(text string) change { return with(file("etc/containerd/config.toml", text)) }
	noSocket := func(m *Machine) { delete(m.Root.(fstest.MapFS), "var/run/nri/nri.sock") }
	expect(t, map[string]expectation{
		"on": {away, "nri", OK, "on, at /var/run/nri/nri.sock"},
		"on, old": {both(config(table+"disable = false"),
			runtimeIs("containerd", "1.7.24")), "nri", OK, "connected"},
		"off": {config(table + "disable = true"), "nri", Problem,
			"switched off by /etc/containerd/config.toml"},
		"off by default": {both(away, runtimeIs("containerd", "1.7.24")), "nri", Problem,
			"switched off"},
		"off as a plugin": {config("disabled_plugins = ['io.containerd.nri.v1.nri']"), "nri",
			Problem, "switched off"},
		"no connections": {config(table + "disable_connections = true"), "nri", Problem,
			"disable_connections"},
		"no socket":          {both(away, noSocket), "nri", Problem, "no socket"},
		"no socket by agent": {noSocket, "nri", OK, "connected"},
		"a file": {both(away, with(file("var/run/nri/nri.sock", "x"))), "nri", Problem,
			"is not a socket"},
		"elsewhere": {
			both(away, both(config(table+"socket_path = '/run/n.sock'"), socketAt("run/n.sock"))),
			"nri", Note, "--nri-socket=/run/n.sock"},
		"bad configuration": {both(away, config("version = ")), "nri", OK, "was not checked"},
		"quick": {config(table + "plugin_request_timeout = '10ms'"), "nri-timeouts",
			Note, "busy"},
		"slow": {config(table + "plugin_request_timeout = '5m'"), "nri-timeouts",
			Note, "holds up"},
		"no duration": {config(table + "plugin_registration_timeout = 'x'"), "nri-timeouts",
			Problem, "2s"},
		"unknown timeouts": {config("version = "), "nri-timeouts", Unknown, ""},
		"validator off": {config("version = 3"), "validator", Problem,
			"off in /etc/containerd/config.toml"},
		"validator, no file": {config(""), "validator", Problem, "containerd reads no conf.d"},
		"validator, for all": {config("[plugins.'io.containerd.nri.v1.nri'.default_validator]\n" +
			"enable=true\nrequired_plugins=['mooring']"), "validator", Problem,
			"DaemonSet never starts"},
		"validator, another": {config("[plugins.'io.containerd.nri.v1.nri'.default_validator]\n" +
			"enable=true\nrequired_plugins=['x']"), "validator", Note, "[x]"},
		"unknown validator": {config("version = "), "validator", Unknown, ""},
	})
}

func socketAt(path string) change {
	return also(fstest.MapFS{path: {Mode: fs.ModeSocket}})
}

// A later file wins, also with the value false. Each file is read once.
func TestLoadConfig(t *testing.T) {
	dir := t.TempDir()
	write := func(file, text string) {
		t.Helper()
		path := filepath.Join(dir, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700),
			os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	write("config.toml", "imports = ['more.toml', '"+dir+"/d/*.toml', 'config.toml']\n"+table+
		"disable = true\nplugin_request_timeout = '3s'\nunknown = 1\n")
	write("more.toml", "imports = ['"+dir+"/config.toml']\n"+table+"socket_path = '/a'\n")
	write("d/2.toml", table+"socket_path = '/b'\n")
	write("d/1.toml", table+"disable = false\nsocket_path = '/c'\n")
	s := &survey{Machine: Machine{Config: filepath.Join(dir, "config.toml"),
		LoadConfig: loadConfig},
		runtimeErr: errNotChecked}
	c, err := s.readConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := defaultNRITable()
	want.Disable, want.SocketPath, want.RequestTimeout = new(bool), "/b", "3s"
	if diff := cmp.Diff(want, c.nri); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	for name, text := range map[string]string{
		"import of an absent file": "imports = ['/none.toml']", "bad pattern": "imports = ['[*']",
		"no TOML":         "a",
		"no such version": "version = 99", "no boolean": table + "disable = 'x'",
	} {
		write("bad.toml", text)
		s.Config = filepath.Join(dir, "bad.toml")
		if _, err := s.readConfig(t.Context()); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// The configuration is the one in the command line of the running containerd.
func TestConfigOfTheProcess(t *testing.T) {
	for _, line := range []string{"/usr/bin/containerd\x00--config\x00/other.toml\x00",
		"containerd\x00--config=/other.toml\x00", "containerd\x00-c\x00/other.toml"} {
		f := examine(t, with(map[string]string{"proc/100/cmdline": line,
			"other.toml": table + "disable = true"}))["nri"]
		if f.Status != Problem || !strings.Contains(f.Found, "/other.toml") {
			t.Errorf("%q: %+v", line, f)
		}
	}
	f := examine(t, with(file("given.toml", table+"disable = true")),
		func(m *Machine) { m.Config = "/given.toml" })["nri"]
	if f.Status != Problem {
		t.Errorf("%+v", f)
	}
}
