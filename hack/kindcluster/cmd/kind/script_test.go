package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// script is hack/kind.
func script(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../../../kind")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// An empty hack/kind once let `make kind` pass without a cluster.
func TestScriptRunsThisCommand(t *testing.T) {
	text := script(t)
	if !strings.Contains(text, "./hack/kindcluster/cmd/kind") ||
		!strings.Contains(text, `exec "$bin"`) {
		t.Errorf("hack/kind does not build and run this command:\n%s", text)
	}
}

// TestScriptPackages runs hack/kind up to the installation of packages. Only a throw-away node and
// an own node image need the step node, which works on Debian and Ubuntu alone.
func TestScriptPackages(t *testing.T) {
	top := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		path = filepath.Join(top, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write("hack/kind", script(t))
	write("hack/env.sh", "")
	write("hack/setup", "#!/bin/sh\necho \"$@\"\nexit 1\n") // ends hack/kind
	write("docker/docker", "#!/bin/sh\n")
	write("no-docker/docker", "#!/bin/sh\nexit 1\n")
	for _, c := range []struct{ docker, args, want string }{
		{"docker", "up --image=kindest/node:v1", "build"},
		{"docker", "up --image kindest/node:v1 --workers=1", "build"},
		{"docker", "--image=kindest/node:v1 run -- true", "build"},
		{"docker", "up", "build node"},
		{"docker", "up --image=", "build node"},
		{"docker", "run -- true --image=kindest/node:v1", "build node"},
		{"docker", "build --image=kindest/node:v1", "build node"},
		{"docker", "load up.tar", "build"},
		{"docker", "shell", "build"},
		{"docker", "down", "build"},
		{"docker", "--help", "build"},
		{"no-docker", "up --image=kindest/node:v1", "build node"},
		{"no-docker", "up", "build node"},
		{"no-docker", "down", "build"},
	} {
		cmd := exec.Command(filepath.Join(top, "hack", "kind"), strings.Fields(c.args)...)
		cmd.Env = append(os.Environ(),
			"PATH="+filepath.Join(top, c.docker)+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		if got := strings.TrimSpace(string(out)); got != c.want || err == nil {
			t.Errorf("%s, hack/kind %s: %q, %v, want %q and the exit code of hack/setup", c.docker,
				c.args, got, err, c.want)
		}
	}
}
