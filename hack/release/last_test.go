package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestLastRelease runs hack/last-release in a repository whose Makefile writes its version into the
// image. On a tagged commit, the last release is the one before.
func TestLastRelease(t *testing.T) {
	script, err := os.ReadFile("../last-release")
	if err != nil {
		t.Fatal(err)
	}
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
	git := func(args ...string) {
		t.Helper()
		if _, err := output(t.Context(), []string{"GIT_CONFIG_GLOBAL=/dev/null"}, "git",
			append([]string{"-C", top, "-c", "user.name=a", "-c", "user.email=a@example.com"},
				args...)...); err != nil {
			t.Fatal(err)
		}
	}
	commit := func(version string) {
		t.Helper()
		write("Makefile", "images:\n\tmkdir -p bin/images\n\techo "+version+
			" >bin/images/agent.tar\n")
		git("add", "--all")
		git("commit", "--quiet", "--message="+version)
	}
	last := func() (string, error) {
		dir := filepath.Join(t.TempDir(), "last")
		cmd := exec.Command(filepath.Join(top, "hack", "last-release"), "registry", dir)
		cmd.Env = append(os.Environ(), "MOORING_CACHE="+t.TempDir())
		if out, err := cmd.CombinedOutput(); err != nil {
			return string(out), err
		}
		tag, _ := os.ReadFile(filepath.Join(dir, "tag"))
		built, err := os.ReadFile(filepath.Join(dir, "agent.tar"))
		return strings.TrimSpace(string(tag)) + " " + strings.TrimSpace(string(built)), err
	}

	write("hack/last-release", string(script))
	write("hack/env.sh", "")
	write("deploy/helm/mooring/Chart.yaml", "")
	git("init", "--quiet")
	commit("one")
	if out, err := last(); err == nil || !strings.Contains(out, "lacks v0.1.0") {
		t.Errorf("without tags: %q, %v, want an error: the first release is not here", out, err)
	}
	git("tag", "v0.1.0")
	commit("two")
	git("tag", "v0.2.0")
	if got, err := last(); got != "v0.1.0 one" || err != nil {
		t.Errorf("on v0.2.0: %q, %v, want v0.1.0", got, err)
	}
	commit("three")
	if got, err := last(); got != "v0.2.0 two" || err != nil {
		t.Errorf("after v0.2.0: %q, %v, want v0.2.0", got, err)
	}
}
