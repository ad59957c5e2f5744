package nodeconfig

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/containerd/containerd/v2/cmd/containerd/server/config"
	"github.com/containerd/containerd/v2/version"
	"github.com/containerd/log"
	"github.com/pelletier/go-toml/v2"
	"github.com/sirupsen/logrus"
)

// The test program acts as containerd with this environment variable. Its value is the version.
const standInVersion = "MOORING_TEST_CONTAINERD"

func TestMain(m *testing.M) {
	if v := os.Getenv(standInVersion); v != "" {
		if err := actAsContainerd(v, os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "containerd:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// actAsContainerd loads the configuration with containerd's own code, as `config dump` does.
func actAsContainerd(v string, args []string) error {
	if slices.Equal(args, []string{"--version"}) {
		fmt.Println("containerd github.com/containerd/containerd/v2", v, "0123abc")
		return nil
	}
	if len(args) != 4 || args[0] != "--config" || args[2] != "config" || args[3] != "dump" {
		return fmt.Errorf("unknown arguments %q", args)
	}
	quiet := logrus.New()
	quiet.SetOutput(io.Discard)
	ctx := log.WithLogger(context.Background(), logrus.NewEntry(quiet))
	c := &config.Config{Version: version.ConfigVersion}
	if err := config.LoadConfig(ctx, args[1], c); err != nil {
		return err
	}
	return toml.NewEncoder(os.Stdout).Encode(c)
}

// fixture is a node with a root file system in a temporary directory.
type fixture struct {
	Node
	root    string
	printed []string
	started []string // command lines of systemctl
	failure error    // of systemctl
}

func newFixture(t *testing.T, files map[string]string) *fixture {
	t.Helper()
	f := &fixture{root: t.TempDir()}
	f.Node = Node{Root: f.root, Run: f.run,
		Print: func(line string) { f.printed = append(f.printed, line) }}
	for path, content := range files {
		f.write(t, path, content)
	}
	return f
}

// run runs a program of the node. Without a chroot, absolute paths in its arguments move below the
// root.
func (f *fixture) run(ctx context.Context, program string, args ...string) (string, error) {
	if filepath.Base(program) == "systemctl" {
		f.started = append(f.started, strings.Join(args, " "))
		return "", f.failure
	}
	moved := slices.Clone(args)
	for i, arg := range moved {
		if filepath.IsAbs(arg) {
			moved[i] = filepath.Join(f.root, arg)
		}
	}
	cmd := exec.CommandContext(ctx, filepath.Join(f.root, program), moved...)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		return "", commandError(program, args, err, errOut.String())
	}
	return out.String(), nil
}

func (f *fixture) write(t *testing.T, path, content string) {
	t.Helper()
	place := filepath.Join(f.root, path)
	if err := os.MkdirAll(filepath.Dir(place), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(place, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// containerd installs the stand-in with this version.
func (f *fixture) containerd(t *testing.T, path, version string) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f.script(t, path, fmt.Sprintf("%s=%s exec '%s' \"$@\"", standInVersion, version, program))
}

// script installs a shell script.
func (f *fixture) script(t *testing.T, path, text string) {
	t.Helper()
	f.write(t, path, "#!/bin/sh\n"+text+"\n")
	if err := os.Chmod(filepath.Join(f.root, path), 0o700); err != nil {
		t.Fatal(err)
	}
}

// files returns the content and permissions of all files.
func (f *fixture) files(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(f.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		all[strings.TrimPrefix(path, f.root)] = fmt.Sprint(info.Mode(), "\n", string(content))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// changed returns the paths with another content or other permissions.
func changed(before, after map[string]string) (paths []string) {
	all := maps.Clone(before)
	maps.Copy(all, after)
	for path := range all {
		old, was := before[path]
		now, is := after[path]
		if old != now || was != is {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

func (f *fixture) output() string { return strings.Join(f.printed, "\n") }
