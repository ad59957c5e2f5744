// Package agent installs the agent on a node as a user would, and drives it.
package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/integration/node"
)

// Where the release lies on the node, and where deploy/install.sh puts the policy.
const (
	releaseDir = "/opt/mooring"
	policyFile = "/etc/mooring/policy.yaml"
	unit       = "mooring-agent.service"
	fenceUnit  = "mooring-fence.service"
)

// Agent is the agent of a node. Its methods must not be called at once with SetPolicy.
type Agent struct {
	node   node.Node
	policy string // that it runs with; empty: not known
}

// ErrNoValidator is what deploy/install.sh ends with where containerd does not
// heed required plugins.
var ErrNoValidator = errors.New("containerd has no default validator")

// Install builds the binaries from the checkout at source, copies them and
// deploy/ to the node, and runs deploy/install.sh there with the given policy.
// It returns when the agent is ready. With ErrNoValidator the agent is installed
// all the same.
func Install(ctx context.Context, n node.Node, source, policy string) (*Agent, error) {
	if err := push(ctx, n, source); err != nil {
		return nil, fmt.Errorf("installing the agent: %w", err)
	}
	if err := n.PushFrom(ctx, strings.NewReader(policy), policyFile, 0o644); err != nil {
		return nil, fmt.Errorf("installing the agent: %w", err)
	}
	a := &Agent{node: n, policy: policy}
	_, err := n.Output(ctx, releaseDir+"/deploy/install.sh")
	if err != nil && strings.Contains(err.Error(), "WARNING: Mooring is installed and runs") {
		return a, errors.Join(ErrNoValidator, a.WaitReady(ctx))
	}
	if err != nil {
		return nil, fmt.Errorf("installing the agent: %w", err)
	}
	return a, a.WaitReady(ctx)
}

func push(ctx context.Context, n node.Node, source string) error {
	bin, err := os.MkdirTemp("", "mooring-bin-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(bin)
	if err := build(ctx, source, bin); err != nil {
		return err
	}
	for _, name := range []string{"mooring-agent", "mooring", "mooring-hook"} {
		if err := n.Push(ctx, filepath.Join(bin, name), releaseDir+"/bin/"+name, 0o755); err != nil {
			return err
		}
	}
	return pushTree(ctx, n, filepath.Join(source, "deploy"), releaseDir+"/deploy")
}

// build makes static binaries, as `make build` does.
func build(ctx context.Context, source, out string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-s -w", "-o", out+"/",
		"./cmd/mooring-agent", "./cmd/mooring", "./cmd/mooring-hook")
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if b, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("building the agent: %w\n%s", err, b)
	}
	return nil
}

func pushTree(ctx context.Context, n node.Node, from, to string) error {
	return filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		return n.Push(ctx, path, filepath.Join(to, rel), info.Mode().Perm())
	})
}

// SetPolicy replaces the policy and restarts the agent and the fence with it, if it is
// another one.
func (a *Agent) SetPolicy(ctx context.Context, policy string) error {
	if a.policy == policy {
		return nil
	}
	a.policy = ""
	if err := a.node.PushFrom(ctx, strings.NewReader(policy), policyFile, 0o644); err != nil {
		return fmt.Errorf("setting the policy: %w", err)
	}
	if _, err := a.node.Output(ctx, "systemctl", "restart", fenceUnit); err != nil {
		return fmt.Errorf("setting the policy: %w", err)
	}
	if err := a.Restart(ctx); err != nil {
		return err
	}
	a.policy = policy
	return nil
}

// Restart restarts the agent and returns when it is ready.
func (a *Agent) Restart(ctx context.Context) error {
	return errors.Join(a.systemctl(ctx, "restart"), a.WaitReady(ctx))
}

// Stop ends the agent with SIGTERM and keeps it away.
func (a *Agent) Stop(ctx context.Context) error { return a.systemctl(ctx, "stop") }

// Start starts a stopped agent and returns when it is ready.
func (a *Agent) Start(ctx context.Context) error {
	return errors.Join(a.systemctl(ctx, "start"), a.WaitReady(ctx))
}

// Kill ends the agent with SIGKILL. systemd starts it again.
func (a *Agent) Kill(ctx context.Context) error {
	return a.systemctl(ctx, "kill", "--signal=KILL")
}

// Pause makes the agent hang until Resume.
func (a *Agent) Pause(ctx context.Context) error {
	return a.systemctl(ctx, "kill", "--signal=STOP")
}

// Resume ends a Pause.
func (a *Agent) Resume(ctx context.Context) error {
	return a.systemctl(ctx, "kill", "--signal=CONT")
}

// RestartContainerd restarts containerd under its containers.
func (a *Agent) RestartContainerd(ctx context.Context) error {
	_, err := a.node.Output(ctx, "systemctl", "restart", "containerd.service")
	return err
}

func (a *Agent) systemctl(ctx context.Context, verb string, flags ...string) error {
	args := append([]string{"systemctl", verb}, flags...)
	if _, err := a.node.Output(ctx, append(args, unit)...); err != nil {
		return fmt.Errorf("systemctl %s the agent: %w", verb, err)
	}
	return nil
}

// Pid is that of the agent's process, 0 while there is none.
func (a *Agent) Pid(ctx context.Context) (string, error) {
	return a.node.Output(ctx, "systemctl", "show", "--property=MainPID", "--value", unit)
}

// Launchers is what `mooring inspect` tells of one pod.
func (a *Agent) Launchers(ctx context.Context, namespace, pod string) ([]agentapi.Launcher, error) {
	var ls []agentapi.Launcher
	return ls, a.get(ctx, agentapi.PathLaunchers+"/"+namespace+"/"+pod, &ls)
}

// Node is what the agent tells of itself.
func (a *Agent) Node(ctx context.Context) (agentapi.Node, error) {
	var n agentapi.Node
	return n, a.get(ctx, agentapi.PathNode, &n)
}

// CLI runs the command line tool on the node.
func (a *Agent) CLI(ctx context.Context, args ...string) (string, error) {
	return a.node.Output(ctx, append([]string{"mooring"}, args...)...)
}

// Log is the agent's log since it was installed.
func (a *Agent) Log(ctx context.Context) (string, error) {
	return a.node.Output(ctx, "journalctl", "--no-pager", "-o", "cat", "-u", unit)
}

func (a *Agent) get(ctx context.Context, path string, into any) error {
	body, err := a.httpGet(ctx, "unix", agentapi.DefaultSocket, path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("reading the agent's answer to %s: %w: %s", path, err, body)
	}
	return nil
}
