// Package agent installs the agent on a node as a user does, and controls it.
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

// Paths on the node: of the release, and of the policy after deploy/install.sh.
const (
	releaseDir = "/opt/mooring"
	policyFile = "/etc/mooring/policy.yaml"
	unit       = "mooring-agent.service"
	fenceUnit  = "mooring-fence.service"
)

// Agent is the agent of a node. No method may run concurrently with SetPolicy.
type Agent struct {
	node   node.Node
	policy string // of the running agent; empty: unknown
}

// ErrNoValidator is the error of deploy/install.sh if containerd ignores required plugins.
var ErrNoValidator = errors.New("containerd has no default validator")

// Install builds the programs from the checkout at source and copies them and deploy/ to the
// node. Then it runs deploy/install.sh there with the policy, and waits until the agent is
// ready. After ErrNoValidator, the agent is installed, too.
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
		if err := n.Push(ctx, filepath.Join(bin, name), releaseDir+"/bin/"+name,
			0o755); err != nil {
			return err
		}
	}
	return pushTree(ctx, n, filepath.Join(source, "deploy"), releaseDir+"/deploy")
}

// build builds static programs, as `make build` does.
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

// SetPolicy replaces the policy and restarts agent and fence, unless the agent already runs
// with this policy.
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

// Restart restarts the agent and waits until it is ready.
func (a *Agent) Restart(ctx context.Context) error {
	return errors.Join(a.systemctl(ctx, "restart"), a.WaitReady(ctx))
}

// Stop ends the agent with SIGTERM. The agent stays away until Start.
func (a *Agent) Stop(ctx context.Context) error { return a.systemctl(ctx, "stop") }

// Start starts a stopped agent and waits until it is ready.
func (a *Agent) Start(ctx context.Context) error {
	return errors.Join(a.systemctl(ctx, "start"), a.WaitReady(ctx))
}

// Kill ends the agent with SIGKILL. systemd restarts it.
func (a *Agent) Kill(ctx context.Context) error {
	return a.systemctl(ctx, "kill", "--signal=KILL")
}

// Pause stops the agent with SIGSTOP until Resume.
func (a *Agent) Pause(ctx context.Context) error {
	return a.systemctl(ctx, "kill", "--signal=STOP")
}

// Resume continues a paused agent.
func (a *Agent) Resume(ctx context.Context) error {
	return a.systemctl(ctx, "kill", "--signal=CONT")
}

// RestartContainerd restarts containerd. Its containers keep running.
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

// Pid returns the pid of the agent, "0" without an agent.
func (a *Agent) Pid(ctx context.Context) (string, error) {
	return a.node.Output(ctx, "systemctl", "show", "--property=MainPID", "--value", unit)
}

// Launchers returns the launchers of one pod, as `mooring inspect` shows them.
func (a *Agent) Launchers(ctx context.Context, namespace, pod string) ([]agentapi.Launcher, error) {
	var ls []agentapi.Launcher
	return ls, a.get(ctx, agentapi.PathLaunchers+"/"+namespace+"/"+pod, &ls)
}

// Node returns the state of the agent itself.
func (a *Agent) Node(ctx context.Context) (agentapi.Node, error) {
	var n agentapi.Node
	return n, a.get(ctx, agentapi.PathNode, &n)
}

// CLI runs the command-line tool on the node and returns its output.
func (a *Agent) CLI(ctx context.Context, args ...string) (string, error) {
	return a.node.Output(ctx, append([]string{"mooring"}, args...)...)
}

// Log returns the agent's log since its installation.
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
