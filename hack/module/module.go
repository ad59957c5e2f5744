// Package module builds programs from nested modules, which have other dependencies than Mooring's.
package module

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/mooring-vm/mooring/hack/throwaway/cache"
	"github.com/mooring-vm/mooring/hack/throwaway/child"
)

// Module is a directory with a go.mod and one program.
type Module struct {
	dir string
}

// Find returns the module in the directory name below one of Mooring's packages. The working
// directory must be in a checkout of Mooring.
func Find(ctx context.Context, packagePath, name string) (Module, error) {
	dir, err := run(goCommand(ctx, "", "list", "-f", "{{.Dir}}", packagePath))
	if err != nil {
		return Module{}, fmt.Errorf("finding the checkout of Mooring: %w", err)
	}
	return Module{dir: filepath.Join(dir, name)}, nil
}

// Key is the content address of the module's program. It changes with the module's files, with Go,
// and with the parts.
func (m Module) Key(parts ...string) (cache.Key, error) {
	files, err := os.ReadDir(m.dir)
	if err != nil {
		return "", fmt.Errorf("reading a module: %w", err)
	}
	parts = append([]string{runtime.Version(), runtime.GOARCH}, parts...)
	for _, f := range files {
		content, err := os.ReadFile(filepath.Join(m.dir, f.Name()))
		if err != nil {
			return "", fmt.Errorf("reading a module: %w", err)
		}
		parts = append(parts, f.Name(), string(content))
	}
	return cache.KeyOf(parts...), nil
}

// Version is the required version of another module.
func (m Module) Version(ctx context.Context, of string) (string, error) {
	version, err := run(goCommand(ctx, m.dir, "list", "-m", "-f", "{{.Version}}", of))
	if err != nil {
		return "", fmt.Errorf("finding the version of %s: %w", of, err)
	}
	return version, nil
}

// Dir is the directory of another required module. It may be read-only.
func (m Module) Dir(ctx context.Context, of string) (string, error) {
	if _, err := run(goCommand(ctx, m.dir, "mod", "download", of)); err != nil {
		return "", fmt.Errorf("fetching %s: %w", of, err)
	}
	dir, err := run(goCommand(ctx, m.dir, "list", "-m", "-f", "{{.Dir}}", of))
	if err != nil {
		return "", fmt.Errorf("finding the directory of %s: %w", of, err)
	}
	return dir, nil
}

// Tools are the packages of the module's tools (see go.mod).
func (m Module) Tools(ctx context.Context) ([]string, error) {
	packages, err := run(goCommand(ctx, m.dir, "list", "tool"))
	if err != nil {
		return nil, fmt.Errorf("listing the tools of %s: %w", filepath.Base(m.dir), err)
	}
	return strings.Fields(packages), nil
}

// BuildTools compiles the module's tools (see go.mod), without cgo, into a directory.
func (m Module) BuildTools(ctx context.Context, dir string) error {
	if _, err := run(goCommand(ctx, m.dir, "build", "-trimpath", "-ldflags=-s -w",
		"-o", dir+"/", "tool")); err != nil {
		return fmt.Errorf("building the tools of %s: %w", filepath.Base(m.dir), err)
	}
	return nil
}

// Build compiles the module's program, without cgo, into a new file. The build is reproducible.
func (m Module) Build(ctx context.Context, file string, ldflags ...string) error {
	flags := "-ldflags=" + strings.Join(append([]string{"-s", "-w"}, ldflags...), " ")
	if _, err := run(goCommand(ctx, m.dir, "build", "-trimpath", flags, "-o", file, ".")); err !=
		nil {
		return fmt.Errorf("building %s: %w", filepath.Base(file), err)
	}
	return nil
}

// BuildPackages compiles programs of required modules into a directory. With cgo, they load
// libvirt at run time and need no headers of libvirt.
func (m Module) BuildPackages(
	ctx context.Context, dir string, cgo bool, ldflags string, packages ...string,
) error {
	cmd := goCommand(ctx, m.dir, append([]string{"build", "-trimpath", "-tags=libvirt_dlopen",
		"-ldflags=-s -w " + ldflags, "-o", dir + "/"}, packages...)...)
	if cgo {
		cmd.Env = append(cmd.Env, "CGO_ENABLED=1")
	}
	if _, err := run(cmd); err != nil {
		return fmt.Errorf("building %s: %w", strings.Join(packages, ", "), err)
	}
	return nil
}

// Link creates links with these names beside a program.
func Link(file string, names ...string) error {
	for _, name := range names {
		if err := os.Symlink(filepath.Base(file), filepath.Join(filepath.Dir(file), name)); err !=
			nil {
			return err
		}
	}
	return nil
}

func goCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := child.Isolated(ctx, "go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOWORK=off")
	return cmd
}

// run returns the output of cmd. Standard error becomes part of the error.
func run(cmd *exec.Cmd) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := child.Run(cmd); err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", cmd.Args[1], err, stderr.String())
	}
	return strings.TrimSpace(stdout.String()), nil
}
