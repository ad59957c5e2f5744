package kube

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/mooring-vm/mooring/hack/throwaway/cache"
	"github.com/mooring-vm/mooring/hack/throwaway/child"
)

const (
	cacheName   = "kube"
	packagePath = "github.com/mooring-vm/mooring/hack/kube"
	binary      = "kube"
)

// CacheNames are the names of the cache entries that Build makes.
func CacheNames() []string { return []string{cacheName} }

// programs are the names that the binary is called by. The module in
// components/ says what each of them runs.
func programs() []string {
	return []string{"etcd", "kube-apiserver", "kube-controller-manager", "kubelet"}
}

// Build compiles the programs of the control plane into the user's cache, or
// finds them there: a folder as KUBEBUILDER_ASSETS has it. Compiling takes
// minutes, in which log hears of it. The working directory must be in a
// checkout of Mooring.
func Build(ctx context.Context, log *slog.Logger) (*cache.Entry, error) {
	store, err := cache.Default()
	if err != nil {
		return nil, err
	}
	module, err := moduleDir(ctx)
	if err != nil {
		return nil, err
	}
	key, err := keyOf(module)
	if err != nil {
		return nil, fmt.Errorf("reading the module of the control plane: %w", err)
	}
	return store.LogTo(log).Get(ctx, cacheName, key, func(ctx context.Context, dir string) error {
		log.Info("building the programs of Kubernetes from their modules, about six minutes on two cores")
		return build(ctx, module, dir)
	})
}

func moduleDir(ctx context.Context) (string, error) {
	dir, err := run(goCommand(ctx, "", "list", "-f", "{{.Dir}}", packagePath))
	if err != nil {
		return "", fmt.Errorf("finding the checkout of Mooring: %w", err)
	}
	return filepath.Join(dir, "components"), nil
}

func keyOf(module string) (cache.Key, error) {
	files, err := os.ReadDir(module)
	if err != nil {
		return "", err
	}
	parts := append([]string{runtime.Version(), runtime.GOARCH}, programs()...)
	for _, f := range files {
		content, err := os.ReadFile(filepath.Join(module, f.Name()))
		if err != nil {
			return "", err
		}
		parts = append(parts, f.Name(), string(content))
	}
	return cache.KeyOf(parts...), nil
}

func build(ctx context.Context, module, dir string) error {
	version, err := run(goCommand(ctx, module, "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes"))
	if err != nil {
		return fmt.Errorf("finding the version of Kubernetes: %w", err)
	}
	ldflags := "-s -w -X k8s.io/component-base/version.gitVersion=" + version + " -X k8s.io/client-go/pkg/version.gitVersion=" + version
	if _, err := run(goCommand(ctx, module, "build", "-trimpath", "-ldflags="+ldflags, "-o", filepath.Join(dir, binary), ".")); err != nil {
		return fmt.Errorf("building the control plane: %w", err)
	}
	for _, name := range programs() {
		if err := os.Symlink(binary, filepath.Join(dir, name)); err != nil {
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

// run returns what cmd prints. Standard error is part of the error.
func run(cmd *exec.Cmd) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := child.Run(cmd); err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", cmd.Args[1], err, stderr.String())
	}
	return strings.TrimSpace(stdout.String()), nil
}
