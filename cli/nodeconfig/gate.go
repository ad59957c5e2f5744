package nodeconfig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/lifecycle/gate"
)

// DefaultPolicy is the path of the node policy. It may be missing.
const DefaultPolicy = "/etc/mooring/policy.yaml"

// GateFiles returns the paths of the start gate's files. The hook comes first: without it, libvirt
// starts all domains.
func GateFiles() []string {
	return []string{gate.HookPath, gate.ConfigPath, gate.NewHookPath}
}

// ConfigureGate installs the start gate for the domains in the node policy, or removes it if the
// policy lists none. Without the default policy it changes nothing.
func (n *Node) ConfigureGate(ctx context.Context) error {
	text, err := n.read(n.Policy)
	if err != nil {
		return err
	}
	if text == nil && n.Policy == DefaultPolicy {
		return nil
	}
	if text == nil {
		return fmt.Errorf("--policy %s: no such file on the node", n.Policy)
	}
	p, err := policy.Parse([]byte(*text))
	if err != nil {
		return fmt.Errorf("%s: %w", n.Policy, err)
	}
	if p.Lifecycle.Libvirt == nil || len(p.Lifecycle.Libvirt.RequireOwner) == 0 {
		return n.UndoGate()
	}
	return n.installGate(ctx, p)
}

func (n *Node) installGate(ctx context.Context, p *policy.Policy) error {
	config := gate.Config{Version: gate.Version, State: gate.StatePath}
	if p.Mode == policy.Enforce {
		config.RequireOwner = p.Lifecycle.Libvirt.RequireOwner
	}
	text, err := json.Marshal(config)
	if err != nil {
		return err
	}
	program, content, err := n.hookProgram()
	if err != nil {
		return err
	}
	isNew, err := n.exists(gate.HookPath)
	isNew = !isNew
	if err == nil { // the configuration first: the hook reads it
		err = n.replaceGateFile(gate.ConfigPath, string(text)+"\n", n.Policy)
	}
	if err == nil {
		err = n.replaceGateFile(gate.HookPath, content, program)
	}
	if err != nil || !isNew && !n.Restart {
		return err
	}
	return n.restartLibvirt(ctx) // with Restart always: an earlier run may have left it out
}

// hookProgram returns the path and the content of the launchers' program.
func (n *Node) hookProgram() (program, content string, err error) {
	for _, program := range gate.Programs() {
		content, err := n.read(program)
		if err != nil || content != nil {
			return program, text(content), err
		}
	}
	return "", "", fmt.Errorf("none of %s exists: install Mooring on the node first",
		strings.Join(gate.Programs(), ", "))
}

// replaceGateFile writes a file with the permissions of another one, if its content changes. The
// new file begins outside of qemu.d: libvirt runs each program there, and obeys its exit code.
func (n *Node) replaceGateFile(path, content, like string) error {
	before, err := n.read(path)
	if err != nil || before != nil && *before == content {
		return err
	}
	if n.DryRun {
		n.printf("would write %s", path)
		return nil
	}
	if err := n.writeVia(filepath.Dir(gate.ConfigPath), path, content, like); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	n.printf("%s: written", path)
	return nil
}

// restartLibvirt restarts the daemons with Restart set. Otherwise the output has the command.
// libvirt looks for hooks at its start. VMs keep running.
func (n *Node) restartLibvirt(ctx context.Context) error {
	for _, unit := range []string{"libvirtd.service", "virtqemud.service"} {
		found, err := n.exists("/usr/lib/systemd/system/" + unit)
		if err != nil {
			return err
		}
		if found {
			err = n.systemctl(ctx, "libvirt", "try-restart", unit)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// UndoGate removes the start gate. libvirt then starts all domains, without a restart.
func (n *Node) UndoGate() error {
	for _, path := range GateFiles() {
		found, err := n.exists(path)
		if err != nil {
			return err
		}
		if !found {
			continue
		}
		if n.DryRun {
			n.printf("would remove %s", path)
			continue
		}
		if err := n.remove(path); err != nil {
			return fmt.Errorf("remove %s: %w", path, err)
		}
		n.printf("%s: removed", path)
	}
	if n.DryRun {
		return nil
	}
	return n.removeEmpty(path.Dir(gate.HookPath))
}

// removeEmpty removes a directory unless it has files of other programs.
func (n *Node) removeEmpty(dir string) error {
	place, err := n.at(dir)
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(place)
	if errors.Is(err, os.ErrNotExist) || len(entries) > 0 {
		return nil
	}
	if err == nil {
		err = os.Remove(place)
	}
	return err
}
