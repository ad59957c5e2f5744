package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/agent/admin"
	"github.com/mooring-vm/mooring/lifecycle/poddir"
)

// realAgent is a process of the agent's binary.
type realAgent struct {
	cmd    *exec.Cmd
	side   string // address of /readyz and /metrics
	root   string // its tmpfs, in its own mount namespace
	log    string
	began  time.Time
	exited chan error
}

// startAgent runs the agent like its unit in a separate mount namespace, with flags only for paths
// and addresses.
func startAgent(ctx context.Context, binary string, r *runtime) (*realAgent, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	a := &realAgent{log: filepath.Join(r.dir, logFile), exited: make(chan error, 1)}
	if a.side, err = freeAddress(); err != nil {
		return nil, err
	}
	rules := filepath.Join(r.dir, "policy.yaml")
	if err := os.WriteFile(rules, nodePolicy, 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(a.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	a.root = filepath.Join(r.dir, "run")
	pins := filepath.Join(r.dir, "bpf")
	a.cmd = exec.CommandContext(ctx, self, "agent", "--root", a.root, "--bpf", pins, "--", binary,
		"--root", a.root, "--bpf-dir", filepath.Join(pins, "mooring"), "--policy", rules,
		"--nri-socket", r.socket, "--listen", a.side)
	a.cmd.Stderr = log
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	a.began = time.Now()
	if err := a.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the agent: %w", err)
	}
	go func() { a.exited <- a.cmd.Wait() }()
	return a, nil
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// agentCommand executes the agent in the mount namespace of this process.
func agentCommand() *cobra.Command {
	var root, pins string
	c := &cobra.Command{
		Use:    "agent -- BINARY [FLAG...]",
		Short:  "Run the agent with its own tmpfs and bpf file system",
		Args:   cobra.MinimumNArgs(1),
		Hidden: true,
		RunE: func(_ *cobra.Command, args []string) error {
			mount, err := cgroup2()
			if err != nil {
				return err
			}
			if err := unix.Mount(mount, "/sys/fs/cgroup", "", unix.MS_BIND, ""); err != nil {
				return fmt.Errorf("mounting the cgroup v2 hierarchy for the agent: %w", err)
			}
			if err := poddir.Mount(root); err != nil {
				return err
			}
			if err := errors.Join(os.Mkdir(pins, 0o700),
				unix.Mount("bpf", pins, "bpf", 0, "")); err != nil {
				return fmt.Errorf("mounting a bpf file system for the agent: %w", err)
			}
			return unix.Exec(args[0], args, os.Environ())
		},
	}
	c.Flags().StringVar(&root, "root", "", "mount point of the agent's tmpfs")
	c.Flags().StringVar(&pins, "bpf", "", "mount point of its bpf file system")
	return c
}

// awaitReady waits until the agent is ready and returns the elapsed time.
func (a *realAgent) awaitReady(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	for {
		err := a.get(ctx, "/readyz")
		if err == nil {
			return time.Since(a.began), nil
		}
		select {
		case end := <-a.exited:
			a.exited <- end
			return 0, a.failed(fmt.Errorf("it ended: %w", end))
		case <-ctx.Done():
			return 0, a.failed(err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// client returns a client of the agent's socket, visible only in its mount namespace.
func (a *realAgent) client() *admin.Client {
	return admin.NewClient(filepath.Join("/proc", strconv.Itoa(a.cmd.Process.Pid), "root", a.root,
		"agent.sock"))
}

// awaitVMs waits until the agent knows n VM processes.
func (a *realAgent) awaitVMs(ctx context.Context, n int) error {
	known := 0
	err := await(ctx, func() (bool, error) {
		all, err := a.client().Launchers(ctx)
		known = 0
		for _, l := range all {
			known += len(l.VMs)
		}
		return known == n, err
	})
	if err != nil {
		return a.failed(fmt.Errorf("it knows %d VM processes, want %d: %w", known, n, err))
	}
	return nil
}

func (a *realAgent) failed(err error) error {
	log, _ := os.ReadFile(a.log)
	return fmt.Errorf("the agent is not ready: %w; its log: %s", err, log)
}

// scrape reads the metrics like a monitoring system.
func (a *realAgent) scrape(ctx context.Context) error { return a.get(ctx, "/metrics") }

func (a *realAgent) get(ctx context.Context, path string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+a.side+path, nil)
	if err != nil {
		return err
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, response.Status, body)
	}
	return err
}

func (a *realAgent) stop() error {
	return errors.Join(a.cmd.Process.Signal(unix.SIGTERM), <-a.exited)
}
