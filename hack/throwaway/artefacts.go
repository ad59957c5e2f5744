package throwaway

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/mooring-vm/mooring/hack/artefacts"
	"github.com/mooring-vm/mooring/hack/throwaway/channel"
)

const artefactsTimeout = time.Minute

// KeepArtefacts writes the node's console, journal, and the logs of containerd and of the agent
// into a new directory and returns it. For unreadable logs, such as those inside a dead node,
// KeepArtefacts returns the directory and an error.
func (n *Node) KeepArtefacts(ctx context.Context, name string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, artefactsTimeout)
	defer cancel()
	dir, err := artefacts.New(name)
	if err != nil {
		return "", fmt.Errorf("keeping the node's logs: %w", err)
	}
	errs := []error{artefacts.Copy(filepath.Join(n.dir, ConsoleFile), dir)}
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
	return errors.Join(n.Run(ctx, channel.Command{Args: args, Stdout: out, Stderr: out}),
		out.Close())
}
