package throwaway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mooring-vm/mooring/hack/throwaway/cache"
	"github.com/mooring-vm/mooring/hack/throwaway/channel"
)

// EnvArtefacts names the environment variable for the folder that the logs of
// what failed are kept in; ~/.cache/mooring/artefacts by default.
const EnvArtefacts = "MOORING_ARTEFACTS"

const artefactsTimeout = time.Minute

// keptArtefacts is how many folders a new node leaves of those in the cache.
const keptArtefacts = 10

// KeepArtefacts writes the node's console, journal, and the logs of containerd
// and of the agent into a new folder and returns it. What cannot be had, for
// example because the node is dead, becomes an error beside the folder.
func (n *Node) KeepArtefacts(ctx context.Context, name string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, artefactsTimeout)
	defer cancel()
	dir, err := newArtefacts(name)
	if err != nil {
		return "", fmt.Errorf("keeping the node's logs: %w", err)
	}
	errs := []error{copyFile(filepath.Join(n.dir, ConsoleFile), filepath.Join(dir, ConsoleFile))}
	if n.Client != nil && !n.lost() {
		errs = append(errs, n.keepLogs(ctx, dir))
	}
	if err := errors.Join(errs...); err != nil {
		return dir, fmt.Errorf("keeping the node's logs: %w", err)
	}
	return dir, nil
}

func (n *Node) lost() bool {
	select {
	case <-n.Done():
		return true
	default:
		return n.owned != nil && n.owned.Failure() != nil
	}
}

func (n *Node) keepLogs(ctx context.Context, dir string) error {
	journal := []string{"journalctl", "--no-pager", "-o", "short-precise"}
	var errs []error
	for file, args := range map[string][]string{
		"journal.log":    journal,
		"containerd.log": slices.Concat(journal, []string{"-u", "containerd"}),
		"agent.log":      slices.Concat(journal, []string{"-u", "mooring-agent"}),
		"processes.txt":  {"ps", "-eo", "pid,ppid,lstart,cgroup,args"},
	} {
		errs = append(errs, n.keepOutput(ctx, filepath.Join(dir, file), args))
	}
	return errors.Join(errs...)
}

func (n *Node) keepOutput(ctx context.Context, file string, args []string) error {
	out, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(n.Run(ctx, channel.Command{Args: args, Stdout: out, Stderr: out}), out.Close())
}

func newArtefacts(name string) (string, error) {
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

// pruneArtefacts is called before a run and never during one, whose failures
// may be many.
func pruneArtefacts(store *cache.Store) error {
	dirs, err := filepath.Glob(store.Dir("artefacts", "20*")) // named after their time
	if err != nil {
		return err
	}
	slices.SortFunc(dirs, func(a, b string) int { return cmp.Compare(b, a) })
	var errs []error
	for _, dir := range dirs[min(keptArtefacts, len(dirs)):] {
		errs = append(errs, os.RemoveAll(dir))
	}
	return errors.Join(errs...)
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
