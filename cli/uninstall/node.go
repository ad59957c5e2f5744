package uninstall

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/cli/nodeconfig"
)

// dialTimeout is the time for an agent to accept a connection.
const dialTimeout = time.Second

// Node describes Mooring's state on a node. [Node.Host] may be another root file system than the
// node's own.
type Node struct {
	Host   string   // root of the node's file system, "/" on the node itself
	Root   string   // the tmpfs of pod directories
	BPFDir string   // directory of the kernel pins
	Hooks  []string // directories of the launchers' hook program
	Force  bool     // continue although an agent answers

	System System
	Report Report
}

// DefaultNode returns the current node with the paths of the units and the DaemonSet.
func DefaultNode() Node {
	return Node{
		Host:   "/",
		Root:   filepath.Dir(agentapi.DefaultSocket),
		BPFDir: "/sys/fs/bpf/mooring",
		// by the unit and by the DaemonSet
		Hooks:  []string{"/usr/local/libexec/mooring", "/opt/mooring"},
		System: Linux{},
	}
}

// System abstracts changes beyond files.
type System interface {
	// Unmount removes a mount, even one in use. Without a mount at path it returns [ErrNotMounted].
	Unmount(path string) error

	// MountSource returns the source of the uppermost mount at path. Without a mount at path it
	// returns [ErrNotMounted].
	MountSource(path string) (string, error)

	// Systemctl runs systemctl.
	Systemctl(ctx context.Context, args ...string) error
}

// ErrNotMounted reports a path without a mount.
var ErrNotMounted = errors.New("not mounted")

// units returns the units of deploy/systemd.
func units() []string {
	return []string{"mooring-agent.service", "mooring-fence.service", "run-mooring.mount"}
}

// keptFiles returns the files that stay for the node's owner to decide, except containerd's.
func keptFiles() []string {
	return []string{"/etc/mooring", "/usr/local/bin/mooring-agent", "/usr/local/bin/mooring"}
}

// Run removes the node's Mooring state and prints the remaining files. If an agent runs without
// systemd, it returns [*AgentRunsError], unless Force is set. It continues after other errors and
// returns all of them.
func (n *Node) Run(ctx context.Context) error {
	stopped, err := n.removeUnits(ctx)
	if err != nil {
		return err
	}
	if !stopped && !n.Force && n.agentRuns(ctx) {
		return &AgentRunsError{Socket: n.socket()}
	}
	errs := []error{n.removeGate(), n.removeTree(n.BPFDir), n.unmountBPF(), n.unmount()}
	for _, dir := range n.Hooks {
		errs = append(errs, n.removeTree(dir))
	}
	return errors.Join(append(errs, n.reportKept())...)
}

// AgentRunsError reports a running agent. It would create the removed state again.
type AgentRunsError struct{ Socket string }

func (e *AgentRunsError) Error() string {
	return fmt.Sprintf("an agent runs on this node and answers at %s: stop it first, or use "+
		"--force", e.Socket)
}

func (n *Node) at(path string) string { return filepath.Join(n.Host, path) }

func (n *Node) socket() string {
	return filepath.Join(n.at(n.Root), filepath.Base(agentapi.DefaultSocket))
}

func (n *Node) agentRuns(ctx context.Context) bool {
	connection, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "unix", n.socket())
	if err != nil {
		return false
	}
	_ = connection.Close()
	return true
}

// removeUnits removes the installed units. It reports whether it stopped an agent's unit.
func (n *Node) removeUnits(ctx context.Context) (stopped bool, err error) {
	var installed []string
	for _, unit := range units() {
		if exists(n.at("/etc/systemd/system/" + unit)) {
			installed = append(installed, unit)
		}
	}
	if len(installed) == 0 {
		return false, nil
	}
	for _, unit := range installed {
		if err := n.removeUnit(ctx, unit); err != nil {
			return false, err
		}
	}
	return installed[0] == units()[0], n.Report.do("reload systemd",
		func() error { return n.System.Systemctl(ctx, "daemon-reload") })
}

func (n *Node) removeUnit(ctx context.Context, unit string) error {
	return n.Report.do("remove unit "+unit, func() error {
		args := []string{"disable", "--now", unit}
		if filepath.Ext(unit) == ".mount" { // pods may use it, so systemd must not unmount it
			args = []string{"disable", unit}
		}
		if err := n.System.Systemctl(ctx, args...); err != nil {
			return err
		}
		return os.Remove(n.at("/etc/systemd/system/" + unit))
	})
}

func (n *Node) removeTree(path string) error {
	if !exists(n.at(path)) {
		return nil
	}
	return n.Report.do("remove "+path, func() error { return os.RemoveAll(n.at(path)) })
}

// removeGate removes the start gate from the node's libvirt. Without the agent it would refuse its
// domains.
func (n *Node) removeGate() error {
	var errs []error
	for _, path := range nodeconfig.GateFiles() {
		errs = append(errs, n.removeTree(path))
	}
	if dir := n.at(filepath.Dir(nodeconfig.GateFiles()[0])); !n.Report.DryRun {
		_ = os.Remove(dir) // fails with files of other programs
	}
	return errors.Join(errs...)
}

// unmountBPF removes the bpf file system of [bpf.MountFS], unless other programs use it. Most nodes
// have one of systemd, which stays.
func (n *Node) unmountBPF() error {
	root := filepath.Dir(n.BPFDir)
	source, err := n.System.MountSource(n.at(root))
	if errors.Is(err, ErrNotMounted) || err == nil && source != agentapi.MountSource {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the mount at %s: %w", root, err)
	}
	others, err := os.ReadDir(n.at(root))
	if err != nil {
		return err
	}
	if slices.ContainsFunc(others, func(d os.DirEntry) bool {
		return d.Name() != filepath.Base(n.BPFDir) // with DryRun it is there
	}) {
		n.Report.printf("left: %s, used by other programs", root)
		return nil
	}
	return n.Report.do("unmount "+root, func() error { return n.System.Unmount(n.at(root)) })
}

// unmount removes the tmpfs. Launchers keep their mounts of it until they end.
func (n *Node) unmount() error {
	root := n.at(n.Root)
	if !exists(root) {
		return nil
	}
	return n.Report.do("unmount "+n.Root, func() error {
		for {
			err := n.System.Unmount(root)
			if errors.Is(err, ErrNotMounted) {
				break
			}
			if err != nil {
				return err
			}
		}
		if err := os.Remove(root); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
}

// reportKept lists the remaining files. containerd's setting does not depend on an agent.
func (n *Node) reportKept() error {
	for _, path := range keptFiles() {
		if exists(n.at(path)) {
			n.Report.printf("left: %s", path)
		}
	}
	settings, err := (&nodeconfig.Node{Root: n.Host}).Settings()
	for _, path := range settings {
		n.Report.printf("left: %s, which `mooring node configure --undo --restart` removes", path)
	}
	return err
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
