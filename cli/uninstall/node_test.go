package uninstall

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/cli/nodeconfig"
)

// system is a fake that records its calls.
type system struct {
	mounts  int // stacked mounts
	calls   []string
	refused error
}

func (s *system) Unmount(string) error {
	if s.mounts == 0 {
		return ErrNotMounted
	}
	s.mounts--
	return s.refused
}

func (s *system) MountSource(string) (string, error) { return "", ErrNotMounted }

func (s *system) Systemctl(_ context.Context, args ...string) error {
	s.calls = append(s.calls, strings.Join(args, " "))
	return s.refused
}

// newNode returns a node with these files and directories (with a slash), and its printed lines.
func newNode(t *testing.T, paths ...string) (*Node, *system, *[]string) {
	t.Helper()
	host, err := os.MkdirTemp("", "node") // short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(host) })
	for _, path := range paths {
		at := filepath.Join(host, path)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(path, "/") {
			err = os.MkdirAll(at, 0o755)
		} else {
			err = os.WriteFile(at, nil, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var printed []string
	s := &system{mounts: 2}
	n := DefaultNode()
	n.Host, n.System, n.Report = host, s,
		Report{Print: func(line string) { printed = append(printed, line) }}
	return &n, s, &printed
}

// remaining lists the files of a node.
func remaining(t *testing.T, n *Node) (paths []string) {
	t.Helper()
	err := filepath.WalkDir(n.Host, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			paths = append(paths, strings.TrimPrefix(path, n.Host))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func withUnits() []string {
	return []string{
		"/etc/systemd/system/mooring-agent.service", "/etc/systemd/system/mooring-fence.service",
		"/etc/systemd/system/run-mooring.mount", "/etc/systemd/system/other.service",
		"/sys/fs/bpf/mooring/v1/links/exec", "/sys/fs/bpf/another", "/run/mooring/",
		"/usr/local/libexec/mooring/mooring-hook", "/etc/mooring/policy.yaml",
	}
}

func TestNodeWithUnits(t *testing.T) {
	n, s, printed := newNode(t, withUnits()...)
	if err := n.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantCalls := []string{
		"disable --now mooring-agent.service", "disable --now mooring-fence.service",
		"disable run-mooring.mount", "daemon-reload",
	}
	if diff := cmp.Diff(wantCalls, s.calls); diff != "" || s.mounts != 0 {
		t.Errorf("%d mounts remain; systemctl (-want +got):\n%s", s.mounts, diff)
	}
	left := []string{"/etc/mooring/policy.yaml", "/etc/systemd/system/other.service",
		"/sys/fs/bpf/another"}
	if diff := cmp.Diff(left, remaining(t, n)); diff != "" {
		t.Errorf("remaining files (-want +got):\n%s", diff)
	}
	if exists(n.at(n.Root)) || (*printed)[len(*printed)-1] != "left: /etc/mooring" {
		t.Errorf("%s is there: %t; printed %q", n.Root, exists(n.at(n.Root)), *printed)
	}
}

// TestContainerdSettingsRemain lists the setting of each flavour. A template without it, and
// another drop-in, are the owner's.
func TestContainerdSettingsRemain(t *testing.T) {
	const k3s = "/var/lib/rancher/k3s/agent/etc/containerd"
	const rke2 = "/var/lib/rancher/rke2/agent/etc/containerd"
	n, _, printed := newNode(t, "/etc/containerd/conf.d/mooring.toml",
		"/etc/containerd/conf.d/other.toml", k3s+"/config-v3.toml.d/mooring.toml",
		k3s+"/config.toml.tmpl", rke2+"/config.toml.d/", rke2+"/config.toml.tmpl.mooring-backup")
	template := "x\n# Begin of Mooring's setting: `mooring node configure --undo` removes it.\n"
	if err := os.WriteFile(n.at(rke2+"/config.toml.tmpl"), []byte(template), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := n.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, line := range *printed {
		path, hint, _ := strings.Cut(line, ", which ")
		if strings.Contains(hint, "mooring node configure --undo") {
			left = append(left, strings.TrimPrefix(path, "left: "))
		}
	}
	want := []string{k3s + "/config-v3.toml.d/mooring.toml", rke2 + "/config.toml.tmpl",
		rke2 + "/config.toml.tmpl.mooring-backup", "/etc/containerd/conf.d/mooring.toml"}
	if diff := cmp.Diff(want, left); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A DaemonSet has no units, and another hook directory.
func TestNodeOfADaemonSet(t *testing.T) {
	n, s, printed := newNode(t, "/opt/mooring/libexec/mooring-hook",
		"/sys/fs/bpf/mooring/v1/events", "/run/mooring/")
	if err := n.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := []string{"remove /sys/fs/bpf/mooring: done", "unmount /run/mooring: done",
		"remove /opt/mooring: done"}
	if diff := cmp.Diff(want, *printed); diff != "" || len(s.calls) > 0 ||
		len(remaining(t, n)) > 0 {
		t.Errorf("calls %q, left %q, printed (-want +got):\n%s", s.calls, remaining(t, n), diff)
	}
	*printed = nil
	if err := n.Run(t.Context()); err != nil || len(*printed) > 0 {
		t.Errorf("the second time: %v, printed %q", err, *printed)
	}
}

// Without the agent, the start gate would refuse its domains.
func TestNodeWithTheStartGate(t *testing.T) {
	n, _, _ := newNode(t, append(nodeconfig.GateFiles(), "/etc/libvirt/qemu.conf")...)
	if err := n.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/etc/libvirt/qemu.conf"}, remaining(t, n)); diff != "" {
		t.Errorf("remaining files (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(n.at(filepath.Dir(nodeconfig.GateFiles()[0]))); err == nil {
		t.Error("the empty directory stays")
	}
}

func TestNodeDryRun(t *testing.T) {
	n, s, printed := newNode(t, withUnits()...)
	n.Report.DryRun = true
	if err := n.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(remaining(t, n)) != len(withUnits())-1 || s.mounts != 2 || len(s.calls) > 0 {
		t.Errorf("%d mounts, calls %q, files %q", s.mounts, s.calls, remaining(t, n))
	}
	if len(*printed) != 8 {
		t.Errorf("printed %q", *printed)
	}
}

// An agent without a unit cannot be stopped from here.
func TestNodeWithAnAgent(t *testing.T) {
	n, _, _ := newNode(t, "/run/mooring/", "/sys/fs/bpf/mooring/v1/events")
	l, err := net.Listen("unix", n.socket())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	err = n.Run(t.Context())
	if _, ok := errors.AsType[*AgentRunsError](err); !ok || len(remaining(t, n)) != 2 {
		t.Errorf("got %v, left %q", err, remaining(t, n))
	}
	n.Force = true
	n.System = &system{}
	if err := n.Run(t.Context()); err == nil { // the socket keeps the folder
		t.Error("a folder that is in use was removed")
	}
	if exists(n.at(n.BPFDir)) {
		t.Error("pins remain")
	}
}

func TestNodeErrorsNameWhatFailed(t *testing.T) {
	refused := errors.New("refused")
	n, s, _ := newNode(t, withUnits()...)
	s.refused = refused
	if err := n.Run(t.Context()); !errors.Is(err, refused) ||
		!strings.Contains(err.Error(), "mooring-agent.service") {
		t.Errorf("got %v", err)
	}
	n, s, _ = newNode(t, "/run/mooring/", "/opt/mooring/libexec/mooring-hook")
	s.refused = refused
	if err := n.Run(t.Context()); !errors.Is(err, refused) ||
		!strings.Contains(err.Error(), "unmount /run/mooring") {
		t.Errorf("got %v", err)
	}
	if exists(n.at("/opt/mooring")) {
		t.Error("independent steps were not done")
	}
}

// The tmpfs is unmounted even if it is in use or mounted over another one.
func TestUnmount(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("missing: root, to mount")
	}
	n, _, printed := newNode(t, "/run/mooring/")
	n.System = Linux{}
	at := n.at(n.Root)
	for range 2 {
		if err := unix.Mount("tmpfs", at, "tmpfs", 0, ""); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.Create(filepath.Join(at, "used"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := n.Run(t.Context()); err != nil || exists(at) {
		t.Errorf("%v, printed %q; it is there: %t", err, *printed, exists(at))
	}
}

// TestUnmountBPF unmounts only the bpf file system of Mooring, and only without pins of others.
func TestUnmountBPF(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("missing: root, to mount")
	}
	for _, c := range []struct {
		source, pin string
		unmounted   bool
	}{
		{agentapi.MountSource, "mooring/v1", true},
		{agentapi.MountSource, "another", false},
		{"bpf", "mooring/v1", false},
	} {
		n, _, printed := newNode(t, "/sys/fs/bpf/")
		n.System = Linux{}
		at := n.at("/sys/fs/bpf")
		if err := unix.Mount(c.source, at, "tmpfs", 0, ""); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
		if err := os.MkdirAll(filepath.Join(at, c.pin), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := n.Run(t.Context()); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
		source, err := n.System.MountSource(at)
		if errors.Is(err, ErrNotMounted) != c.unmounted || !c.unmounted && source != c.source {
			t.Errorf("%+v: source %q, %v, printed %q", c, source, err, *printed)
		}
	}
}

func TestSystemctlErrorsHaveTheOutput(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "systemctl"),
		[]byte("#!/bin/sh\necho refused $*; exit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/bin")
	err := Linux{}.Systemctl(t.Context(), "disable", "a.service")
	if err == nil || !strings.Contains(err.Error(), "systemctl disable a.service: exit status 1: "+
		"refused disable a.service") {
		t.Errorf("got %v", err)
	}
}
