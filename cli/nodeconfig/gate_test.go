package nodeconfig

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/lifecycle/gate"
)

const (
	gatePolicy = "apiVersion: mooring.dev/v1alpha1\nkind: NodePolicy\nmode: enforce\n" +
		"lifecycle: {libvirt: {requireOwner: ['vm-*']}}\n"
	hookProgram = "/opt/mooring/libexec/mooring-hook"
)

// newGateNode returns a node with Mooring, libvirt and this policy.
func newGateNode(t *testing.T, policy string) *fixture {
	t.Helper()
	f := newFixture(t, map[string]string{
		DefaultPolicy:                              policy,
		"/etc/libvirt/qemu.conf":                   "",
		"/usr/bin/systemctl":                       "",
		"/usr/lib/systemd/system/libvirtd.service": "",
	})
	f.script(t, hookProgram, "")
	f.Policy = DefaultPolicy
	return f
}

func (f *fixture) gateConfig(t *testing.T) (c gate.Config) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(f.root, gate.ConfigPath))
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The gate's files come and go without a trace. A second run changes no file, and restarts libvirt
// again: the first run may have been without --restart.
func TestGateFiles(t *testing.T) {
	f := newGateNode(t, gatePolicy)
	f.Restart = true
	before := f.files(t)
	for range 2 {
		if err := f.ConfigureGate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	after := f.files(t)
	if diff := cmp.Diff([]string{gate.ConfigPath, gate.HookPath}, changed(before, after)); diff != "" {
		t.Errorf("changed files (-want +got)\n%s", diff)
	}
	if after[gate.HookPath] != before[hookProgram] {
		t.Errorf("the hook is no copy: %q", after[gate.HookPath])
	}
	want := gate.Config{Version: gate.Version, State: gate.StatePath,
		RequireOwner: []string{"vm-*"}}
	if diff := cmp.Diff(want, f.gateConfig(t)); diff != "" {
		t.Errorf("configuration (-want +got)\n%s", diff)
	}
	if !slices.Equal(f.started, []string{"try-restart libvirtd.service",
		"try-restart libvirtd.service"}) {
		t.Errorf("started %q", f.started)
	}
	if err := f.UndoGate(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, f.files(t)); diff != "" {
		t.Errorf("after undo (-want +got)\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(f.root, filepath.Dir(gate.HookPath))); err == nil {
		t.Error("the empty directory stays")
	}
}

// An upgrade replaces the copy, a changed policy the names. Neither needs a restart of libvirt.
func TestGateUpgrade(t *testing.T) {
	f := newGateNode(t, gatePolicy)
	if err := f.ConfigureGate(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.printed = nil
	f.script(t, hookProgram, "new")
	f.write(t, DefaultPolicy, strings.Replace(gatePolicy, "enforce", "observe", 1))
	if err := f.ConfigureGate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if files := f.files(t); files[gate.HookPath] != files[hookProgram] {
		t.Errorf("the hook is %q", files[gate.HookPath])
	}
	if c := f.gateConfig(t); len(c.RequireOwner) != 0 {
		t.Errorf("observe mode: %+v", c)
	}
	if strings.Contains(f.output(), "restart") {
		t.Errorf("printed %s", f.output())
	}
	f.write(t, DefaultPolicy, strings.Split(gatePolicy, "lifecycle")[0])
	if err := f.ConfigureGate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if files := f.files(t); files[gate.HookPath] != "" || files[gate.ConfigPath] != "" {
		t.Error("the gate stays without names")
	}
}

func TestGateErrors(t *testing.T) {
	for name, c := range map[string]struct {
		change func(f *fixture)
		want   string
	}{
		"no default policy": {func(f *fixture) { _ = f.remove(DefaultPolicy) }, ""},
		"no policy":         {func(f *fixture) { f.Policy = "/none" }, "--policy /none: no such file"},
		"broken policy": {func(f *fixture) { f.Policy = "/etc/libvirt/qemu.conf" },
			"apiVersion"},
		"no program": {func(f *fixture) { _ = f.remove(hookProgram) },
			hookProgram + " exists: install Mooring"},
		"dry run": {func(f *fixture) { f.DryRun = true }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newGateNode(t, gatePolicy)
			c.change(f)
			before := f.files(t)
			err := f.ConfigureGate(t.Context())
			if c.want == "" && err != nil || c.want != "" && (err == nil ||
				!strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if diff := cmp.Diff(before, f.files(t)); diff != "" {
				t.Errorf("changed (-before +after)\n%s", diff)
			}
		})
	}
}

// Files of other programs in the directory of hooks stay.
func TestGateBesideOtherHooks(t *testing.T) {
	f := newGateNode(t, gatePolicy)
	f.script(t, filepath.Dir(gate.HookPath)+"/10-other", "")
	before := f.files(t)
	if err := f.ConfigureGate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := f.UndoGate(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, f.files(t)); diff != "" {
		t.Errorf("after undo (-want +got)\n%s", diff)
	}
}
