package uninstall

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
)

// dialTimeout is how long an agent may take to accept a connection.
const dialTimeout = time.Second

// Node is what Mooring has put on a node. What lies in a file system that is not the
// node's own ([Node.Host]) is taken away alike.
type Node struct {
	Host   string   // where the node's file system is; "/" on the node itself
	Root   string   // the tmpfs of pod directories
	BPFDir string   // what is pinned in the kernel
	Hooks  []string // folders of the program for launchers
	Force  bool     // also while an agent answers

	System System
	Report Report
}

// DefaultNode is the node that the program runs on, as the units and the DaemonSet leave
// it.
func DefaultNode() Node {
	return Node{
		Host:   "/",
		Root:   filepath.Dir(agentapi.DefaultSocket),
		BPFDir: "/sys/fs/bpf/mooring",
		Hooks:  []string{"/usr/local/libexec/mooring", "/opt/mooring"}, // of the unit, of the DaemonSet
		System: Linux{},
	}
}

// System is what changes more than files.
type System interface {
	// Unmount takes a mount away, also one that is in use. What is none is an error that is
	// [ErrNotMounted].
	Unmount(path string) error

	// Systemctl runs systemctl.
	Systemctl(ctx context.Context, args ...string) error
}

// ErrNotMounted is that nothing is mounted at a path.
var ErrNotMounted = errors.New("nothing is mounted there")

// units are those of deploy/systemd.
func units() []string {
	return []string{"mooring-agent.service", "mooring-fence.service", "run-mooring.mount"}
}

// kept is what the owner of the node decides about.
func kept() []string {
	return []string{"/etc/mooring", "/etc/containerd/conf.d/mooring.toml", "/usr/local/bin/mooring-agent", "/usr/local/bin/mooring"}
}

// Run takes it away, and tells what is left. An agent that runs without systemd is a
// [*AgentRunsError], unless forced. It goes on after other errors, and returns all of them.
func (n *Node) Run(ctx context.Context) error {
	stopped, err := n.removeUnits(ctx)
	if err != nil {
		return err
	}
	if !stopped && !n.Force && n.agentRuns(ctx) {
		return &AgentRunsError{Socket: n.socket()}
	}
	errs := []error{n.removeTree(n.BPFDir), n.unmount()}
	for _, dir := range n.Hooks {
		errs = append(errs, n.removeTree(dir))
	}
	n.tellKept()
	return errors.Join(errs...)
}

// AgentRunsError is that an agent would make anew what is taken away.
type AgentRunsError struct{ Socket string }

func (e *AgentRunsError) Error() string {
	return fmt.Sprintf("an agent runs on this node, it answers at %s: stop it first, or go on all the same (--force)", e.Socket)
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

// removeUnits reports whether there was an agent's unit, which does not run any more.
func (n *Node) removeUnits(ctx context.Context) (stopped bool, err error) {
	var there []string
	for _, unit := range units() {
		if exists(n.at("/etc/systemd/system/" + unit)) {
			there = append(there, unit)
		}
	}
	if len(there) == 0 {
		return false, nil
	}
	for _, unit := range there {
		if err := n.removeUnit(ctx, unit); err != nil {
			return false, err
		}
	}
	return there[0] == units()[0], n.Report.do("reload systemd", func() error { return n.System.Systemctl(ctx, "daemon-reload") })
}

func (n *Node) removeUnit(ctx context.Context, unit string) error {
	return n.Report.do("remove unit "+unit, func() error {
		args := []string{"disable", "--now", unit}
		if filepath.Ext(unit) == ".mount" { // pods may use it, which systemd does not unmount
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

// unmount takes the tmpfs away. Launchers keep what they have of it until they end.
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

func (n *Node) tellKept() {
	for _, path := range kept() {
		if exists(n.at(path)) {
			n.Report.tell("left: %s", path)
		}
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
