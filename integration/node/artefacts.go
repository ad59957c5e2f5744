package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/hack/throwaway"
	"github.com/mooring-vm/mooring/hack/throwaway/cache"
)

// EnvArtefacts names the environment variable for the folder that failing
// tests keep the node's logs in; ~/.cache/mooring/artefacts by default.
const EnvArtefacts = "MOORING_ARTEFACTS"

const artefactsTimeout = time.Minute

func keepArtefacts(t testing.TB, n *throwaway.Node) {
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		dir, err := Artefacts(n, t.Name())
		if err != nil {
			t.Logf("keeping the node's logs: %v", err)
		}
		t.Logf("the node's console, journal and containerd log are in %s", dir)
	})
}

// Artefacts writes the node's console, journal, and the logs of containerd and
// of the agent into a new folder and returns it. What cannot be had, for
// example because the node is dead, becomes an error beside the folder.
func Artefacts(n *throwaway.Node, name string) (string, error) {
	dir, err := artefactsDir(name)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), artefactsTimeout)
	defer cancel()
	errs := []error{copyFile(filepath.Join(n.Dir(), throwaway.ConsoleFile), filepath.Join(dir, throwaway.ConsoleFile))}
	for file, args := range map[string][]string{
		"journal.log":    {"journalctl", "--no-pager", "-o", "short-precise"},
		"containerd.log": {"journalctl", "--no-pager", "-o", "short-precise", "-u", "containerd"},
		"agent.log":      {"journalctl", "--no-pager", "-o", "short-precise", "-u", "mooring-agent"},
		"processes.txt":  {"ps", "-eo", "pid,ppid,lstart,cgroup,args"},
	} {
		errs = append(errs, keepOutput(ctx, n, filepath.Join(dir, file), args))
	}
	return dir, errors.Join(errs...)
}

func keepOutput(ctx context.Context, n Node, file string, args []string) error {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(n.Run(ctx, Command{Args: args, Stdout: out, Stderr: out}), out.Close())
}

func artefactsDir(name string) (string, error) {
	base := os.Getenv(EnvArtefacts)
	if base == "" {
		store, err := cache.Default()
		if err != nil {
			return "", err
		}
		base = store.Dir("artefacts")
	}
	if err := os.MkdirAll(base, 0o755); err != nil {
		return "", err
	}
	safe := strings.NewReplacer("/", "_", " ", "_").Replace(name)
	return os.MkdirTemp(base, time.Now().Format("20060102-150405-")+safe+"-")
}

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o644)
}
