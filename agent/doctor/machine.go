package doctor

import (
	"cmp"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/mooring-vm/mooring/agent/admin"
	"github.com/mooring-vm/mooring/agent/libvirt"
	"github.com/mooring-vm/mooring/lifecycle/poddir"
)

// Options are the places of files and sockets on this machine.
type Options struct {
	// Host is where the node's root file system is mounted: "/" on the node, another path in the
	// agent's pod. The pod must have the node's PID namespace. Empty means "/".
	Host string

	// RuntimeEndpoint is the node's socket for CRI: unix:///path, or the path. Empty: that of
	// containerd, k3s or RKE2.
	RuntimeEndpoint string

	AgentSocket string // in the file system of this program
	Config      string // of containerd on the node; empty: the one of the running containerd
}

// ThisMachine returns the machine of this program.
func ThisMachine(o Options) Machine {
	host := hostFS(cmp.Or(o.Host, "/"))
	m := Machine{
		Root:       host,
		Config:     o.Config,
		LoadConfig: loadConfig,
		Runtime: func(ctx context.Context) (Runtime, error) {
			socket, err := host.runtimeSocket(strings.TrimPrefix(o.RuntimeEndpoint, "unix://"))
			if err != nil {
				return Runtime{}, err
			}
			return queryRuntime(ctx, socket)
		},
		BuildInfo: func(pid int) (*debug.BuildInfo, error) {
			return buildinfo.ReadFile(procPath(pid, "exe"))
		},
		Agent:   func(ctx context.Context) (Agent, error) { return queryAgent(ctx, o.AgentSocket) },
		PodDirs: func() error { return poddir.CheckMount(filepath.Dir(o.AgentSocket)) },
		ProbeGate: func(ctx context.Context, socket string) (bool, error) {
			place, err := host.resolve(socket)
			if err != nil {
				return false, err
			}
			return libvirt.Daemon{Socket: place}.ProbeGate(ctx)
		},
		IOMMUFD: iommufdUsers,
		Peers:   peersOf,
		Version: host.runVersion,
	}
	if host != "/" {
		m.seeFromPod(host)
	}
	return m
}

func queryAgent(ctx context.Context, socket string) (Agent, error) {
	node, err := admin.NewClient(socket).Node(ctx)
	if _, ok := errors.AsType[*admin.PermissionError](err); ok {
		return Agent{}, fmt.Errorf("%w: %w", fs.ErrPermission, err)
	}
	if err != nil {
		return Agent{}, err
	}
	conn, err := dialUnix(ctx, socket)
	if err != nil {
		return Agent{Node: node}, nil // the agent has answered: only its pid is unknown
	}
	defer conn.Close()
	return Agent{Node: node, PID: peerPID(conn)}, nil
}

// peersOf lists the client processes of a listening unix socket, in this network namespace.
func peersOf(socket string) ([]Process, error) {
	inodes, err := peerInodes(socket)
	if err != nil || len(inodes) == 0 {
		return nil, err
	}
	processes, err := processesWith(inodes)
	if err != nil {
		return nil, fmt.Errorf("processes connected to %s: %w", socket, err)
	}
	if missing := len(inodes) - len(processes); missing > 0 {
		return processes, fmt.Errorf("processes connected to %s: %d of %d could not be found",
			socket, missing, len(inodes))
	}
	return processes, nil
}

// processesWith returns one process for each socket: a process that has it open.
func processesWith(inodes map[uint32]bool) (all []Process, err error) {
	links, err := filepath.Glob("/proc/[0-9]*/fd/*")
	if err != nil {
		return nil, err
	}
	found := map[uint32]bool{}
	for _, link := range links {
		target, err := os.Readlink(link)
		var inode uint32
		if err != nil || !parseSocketLink(target, &inode) || !inodes[inode] || found[inode] {
			continue
		}
		found[inode] = true
		all = append(all, processOf(link))
	}
	return all, nil
}

// parseSocketLink reads the inode from a link in /proc/PID/fd.
func parseSocketLink(target string, inode *uint32) bool {
	n, err := fmt.Sscanf(target, "socket:[%d]", inode)
	return n == 1 && err == nil
}

// processOf returns the process of /proc/PID/fd/N.
func processOf(link string) (p Process) {
	_, _ = fmt.Sscanf(link, "/proc/%d/", &p.PID) // Glob has found digits there
	comm, err := os.ReadFile(procPath(p.PID, "comm"))
	if err != nil {
		comm = []byte("a process that has ended")
	}
	p.Name = strings.TrimSpace(string(comm))
	return p
}
