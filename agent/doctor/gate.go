package doctor

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/mooring-vm/mooring/agent/libvirt"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/lifecycle/gate"
)

const configureGate = "run `mooring node configure --restart` on the node"

// allowHook needs no restart of libvirt, which would ask the hook about running VMs.
const allowHook = "let AppArmor or SELinux allow libvirt to execute " + gate.HookPath +
	" and to read " + gate.StatePath + ", or run `mooring node configure --undo`"

// startGate checks the start gate of the node's libvirt. libvirt proves a gate by its refusal of a
// domain that could not start without the gate either.
func startGate(ctx context.Context, s *survey) finding {
	p, unread := s.nodePolicy()
	if p == nil {
		return unread
	}
	installed := s.exists(gate.HookPath)
	l := p.Lifecycle.Libvirt
	switch {
	case (l == nil || len(l.RequireOwner) == 0) && !installed:
		return finding{OK, "the node policy requires no owners", "VMs outside of pods may start " +
			"without a pod", ""}
	case l == nil || len(l.RequireOwner) == 0:
		return finding{Note, gate.HookPath + ", and the node policy requires no owners",
			"the hook is of no use", configureGate}
	case !installed:
		return finding{Problem, "no " + gate.HookPath,
			"libvirt starts domains of lifecycle.libvirt.requireOwner without a pod",
			configureGate}
	}
	if err := s.checkGateConfig(p); err != nil {
		return finding{Problem, err.Error(),
			"after the node's boot, the gate refuses other names than the node policy",
			configureGate}
	}
	if err := s.checkGateProgram(); err != nil {
		return finding{Problem, err.Error(), "the gate is of another version than the agent",
			configureGate}
	}
	return s.probeGate(ctx, *l)
}

// checkGateProgram compares the hook with the launchers' program, of which it is a copy.
func (s *survey) checkGateProgram() error {
	hook, err := fs.ReadFile(s.Root, fsPath(gate.HookPath))
	if err != nil {
		return fmt.Errorf("%s: %w", gate.HookPath, withoutPath(err))
	}
	for _, path := range gate.Programs() {
		program, err := fs.ReadFile(s.Root, fsPath(path))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return fmt.Errorf("%s: %w", path, withoutPath(err))
		case !bytes.Equal(hook, program):
			return fmt.Errorf("%s differs from %s", gate.HookPath, path)
		}
		return nil
	}
	return nil
}

// checkGateConfig compares the names in the hook's configuration with the node policy.
func (s *survey) checkGateConfig(p *policy.Policy) error {
	text, err := fs.ReadFile(s.Root, fsPath(gate.ConfigPath))
	if err != nil {
		return fmt.Errorf("%s: %w", gate.ConfigPath, withoutPath(err))
	}
	var c gate.Config
	if err := json.Unmarshal(text, &c); err != nil {
		return fmt.Errorf("%s: %w", gate.ConfigPath, err)
	}
	var want []string
	if p.Mode == policy.Enforce {
		want = p.Lifecycle.Libvirt.RequireOwner
	}
	if c.Version != gate.Version || !slices.Equal(c.RequireOwner, want) {
		return fmt.Errorf("%s: version %d, names %q: want version %d, names %q", gate.ConfigPath,
			c.Version, c.RequireOwner, gate.Version, want)
	}
	return nil
}

func (s *survey) probeGate(ctx context.Context, l policy.Libvirt) finding {
	const means = "only libvirt can prove that it calls its hook"
	if s.ProbeGate == nil {
		return finding{Unknown, "not checked", means, ""}
	}
	works, err := s.ProbeGate(ctx, l.Socket)
	switch {
	case errors.Is(err, libvirt.ErrHookFailed):
		return finding{Problem, err.Error(),
			"listed domains do not start; without the right to execute its hook, libvirt starts no " +
				"domain, and its next restart ends running VMs", allowHook}
	case err != nil:
		return finding{Unknown, err.Error(), means, asRoot}
	case !works:
		return finding{Problem, "libvirt does not call " + gate.HookPath,
			"libvirt starts domains of lifecycle.libvirt.requireOwner without a pod",
			"restart libvirtd or virtqemud: VMs keep running"}
	}
	return finding{OK, "libvirt refused the probe", "listed domains start only with their pod", ""}
}
