package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// platform is an operating system and an architecture, as GOOS and GOARCH.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "_" + p.arch }

// suffix is the suffix of programs.
func (p platform) suffix() string {
	if p.os == "windows" {
		return ".exe"
	}
	return ""
}

// nodePlatforms are the platforms of the images.
func nodePlatforms() []platform { return []platform{{"linux", "amd64"}, {"linux", "arm64"}} }

// cliPlatforms are the platforms of the CLI.
func cliPlatforms() []platform {
	return append(nodePlatforms(), platform{"darwin", "amd64"}, platform{"darwin", "arm64"},
		platform{"windows", "amd64"})
}

// cli is the program for laptops and nodes.
const cli = "mooring"

// staticPrograms are the programs of images, without the sidecar, which loads libvirt.
func staticPrograms() []string {
	return []string{"mooring-agent", "mooring-controller", "mooring-hook", cli}
}

// shim is the sidecar. It needs a C compiler for its architecture, and changes VMs of x86-64 only.
const shim = "mooring-shim"

func (r *release) programs() string { return filepath.Join(r.out, "programs") }

// program returns the path of a built program.
func (r *release) program(p platform, name string) string {
	return filepath.Join(r.programs(), p.String(), name+p.suffix())
}

// buildPrograms builds all programs for all platforms, without paths of this machine.
func (r *release) buildPrograms(ctx context.Context) error {
	for _, p := range cliPlatforms() {
		names := []string{cli}
		if p.os == "linux" {
			names = staticPrograms()
		}
		for _, name := range names {
			r.log.Info("build", "program", name, "platform", p)
			if err := r.build(ctx, p, name, "CGO_ENABLED=0"); err != nil {
				return err
			}
		}
	}
	if !hasShim(nodePlatforms()[0]) {
		return fmt.Errorf("this machine is %s: %s needs a build on amd64", runtime.GOARCH, shim)
	}
	return r.build(ctx, nodePlatforms()[0], shim, "CGO_ENABLED=1")
}

// hasShim reports whether a platform gets the sidecar.
func hasShim(p platform) bool { return p == platform{"linux", "amd64"} && runtime.GOARCH == p.arch }

func (r *release) build(ctx context.Context, p platform, name string, env ...string) error {
	_, err := output(ctx, append(env, "GOOS="+p.os, "GOARCH="+p.arch), "go", "build", "-trimpath",
		"-buildvcs=auto", "-ldflags=-s -X main.version="+r.version, "-o", r.program(p, name),
		"./cmd/"+name)
	return err
}

// tryPrograms runs agent and controller of each platform and compares their versions. Programs of
// another architecture need QEMU's user emulation. Without it, they are not run and a warning says
// so. If MOORING_CI_REQUIRE is set, this is an error.
func (r *release) tryPrograms(ctx context.Context) error {
	for _, p := range nodePlatforms() {
		emulator, err := emulatorOf(p)
		switch {
		case err != nil && os.Getenv("MOORING_CI_REQUIRE") != "":
			return fmt.Errorf("the programs of %s did not run: install qemu-user: %w", p, err)
		case err != nil:
			r.log.Warn("not run: install qemu-user", "platform", p, "error", err)
			continue
		}
		for _, name := range []string{"mooring-agent", "mooring-controller"} {
			command := slices.Concat(emulator, []string{r.program(p, name), "version"})
			text, err := output(ctx, nil, command[0], command[1:]...)
			if err != nil {
				return err
			}
			if !strings.Contains(text, r.version) {
				return fmt.Errorf("%s of %s prints %q, want %s", name, p, text, r.version)
			}
			r.log.Info("runs", "platform", p, "version", strings.TrimSpace(text))
		}
	}
	return nil
}

// emulatorOf returns the program that runs programs of a Linux platform, or nothing if none is
// needed.
func emulatorOf(p platform) ([]string, error) {
	if p.arch == runtime.GOARCH {
		return nil, nil
	}
	names := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}
	path, err := exec.LookPath("qemu-" + names[p.arch])
	if err != nil {
		path, err = exec.LookPath("qemu-" + names[p.arch] + "-static")
	}
	return []string{path}, err
}
