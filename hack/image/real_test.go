package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// need skips a test if something is missing. In CI it fails the test.
func need(t *testing.T) {
	t.Helper()
	missing := missingTools()
	if os.Geteuid() != 0 {
		missing = append(missing, "root, to run a program in an image")
	}
	switch {
	case len(missing) == 0:
	case os.Getenv("MOORING_CI_REQUIRE") != "":
		t.Fatalf("missing: %s", strings.Join(missing, ", "))
	default:
		t.Skipf("missing: %s", strings.Join(missing, ", "))
	}
}

// TestShimLoadsLibvirt runs the real shim in its real image as the image's user, without any file
// of this machine. It connects to the test hypervisor in libvirt's own library.
func TestShimLoadsLibvirt(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: gets Debian packages")
	}
	need(t)
	image := realImage(t)
	root := extracted(t, image)
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != "65532:65532" {
		t.Fatalf("the user is %q", config.Config.User)
	}
	if output := runShim(t, root, config.Config, "serving the VM of this pod"); strings.Contains(
		output, "libvirt.so") {
		t.Errorf("the shim says %s", output)
	}
	noProgramsBut(t, root, "/usr/local/bin/mooring-shim")
	for _, name := range []string{"/etc/debian_version", "/usr/lib/os-release",
		"/var/lib/dpkg/status.d/libc6", "/usr/share/common-licenses/LGPL-2.1",
		"/usr/share/doc/libvirt-common/copyright"} {
		if info, err := os.Stat(filepath.Join(root, name)); err != nil || info.Size() == 0 {
			t.Errorf("no text in %s: %v", name, err)
		}
	}

	libraries, err := filepath.Glob(filepath.Join(root, "usr/lib/*/"+libvirtSO))
	if err != nil || len(libraries) != 1 {
		t.Fatalf("%v, %v", libraries, err)
	}
	if err := os.Remove(libraries[0]); err != nil {
		t.Fatal(err)
	}
	runShim(t, root, config.Config, "Failed to open "+libvirtSO)
}

func realImage(t *testing.T) v1.Image {
	t.Helper()
	bin, out := t.TempDir(), t.TempDir()
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-buildvcs=false",
		"-ldflags=-s", "-tags=libvirt_dlopen", "-o", bin, "../../cmd/mooring-shim")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=1")
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building mooring-shim: %v\n%s", err, output)
	}
	if err := runWithoutOutput(t, options{bin: bin, out: out, tag: "latest", arch: runtime.GOARCH,
		only: "mooring-shim"}); err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(filepath.Join(out, "mooring-shim.tar"), nil)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

// extracted is the image's file system in a directory for all users.
func extracted(t *testing.T, image v1.Image) string {
	t.Helper()
	root, err := os.MkdirTemp("", "image")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	files := mutate.Extract(image)
	defer func() { _ = files.Close() }()
	cmd := exec.CommandContext(t.Context(), "tar", "-xp", "-C", root)
	cmd.Stdin = files
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	return root
}

// runShim runs the shim in root until it prints want, and returns its output.
func runShim(t *testing.T, root string, config v1.Config, want string) string {
	t.Helper()
	journal, err := os.MkdirTemp(root, "journal")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(journal, 65532, 65532); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, config.Entrypoint[0], "run", "--connect=test:///default",
		"--journal=/"+filepath.Base(journal))
	cmd.Env, cmd.Dir = config.Env, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Credential: &syscall.Credential{Uid: 65532,
		Gid: 65532}, Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	output := &until{want: want, then: cancel}
	cmd.Stdout, cmd.Stderr = output, output
	err = cmd.Run()
	if !output.found {
		t.Fatalf("the shim ended without %q: %v\n%s", want, err, output.text.String())
	}
	return output.text.String()
}

// until calls then when its text contains want.
type until struct {
	want  string
	then  func()
	found bool
	text  bytes.Buffer
}

var _ io.Writer = (*until)(nil)

func (u *until) Write(p []byte) (int, error) {
	u.text.Write(p)
	if !u.found && strings.Contains(u.text.String(), u.want) {
		u.found = true
		u.then()
	}
	return len(p), nil
}

// noProgramsBut checks that an image contains one program and no shell or package manager. Other
// executable files are allowed in library directories.
func noProgramsBut(t *testing.T, root, want string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, root)
		if info.Mode()&0o111 != 0 && name != want && !strings.HasPrefix(name, "/usr/lib") {
			t.Errorf("%s may be executed", name)
		}
		if info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 {
			t.Errorf("%s has mode %s", name, info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
