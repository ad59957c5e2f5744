package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/mooring-vm/mooring/api/policy"
)

const (
	bpffsRoot     = "/sys/fs/bpf"
	hookPath      = "/usr/local/libexec/mooring/mooring-hook"
	defaultPolicy = "/etc/mooring/policy.yaml"
)

// bpffs looks for the file system that keeps the tracker's maps while no agent runs.
func bpffs(_ context.Context, s *survey) finding {
	mounts, err := s.read("/proc/mounts")
	if err != nil {
		return finding{Unknown, err.Error(), "the mounts cannot be read", "mount procfs at /proc"}
	}
	if mountTypes(mounts)[bpffsRoot] == "bpf" {
		return finding{OK, "bpffs at " + bpffsRoot, "what the agent knows of VM processes outlives it", ""}
	}
	return finding{
		s.problemIfInstalled(), "no bpffs at " + bpffsRoot,
		"nobody follows VM processes while the agent is away, and the fence knows of none",
		"mount it: mount -t bpf bpf " + bpffsRoot + "; systemd does so by itself",
	}
}

// tracker asks the agent whether it follows VM processes.
func tracker(_ context.Context, s *survey) finding {
	t := s.agent.Tracker
	switch {
	case s.agentErr != nil && !s.installed():
		return finding{Note, "not installed", "VM processes are not tracked", "see docs/how-to/install.md"}
	case s.agentErr != nil:
		return finding{Unknown, "the agent does not answer", "it is the agent that says whether VM processes are tracked", "see agent"}
	case !t.Available:
		return finding{
			Problem, cmp.Or(t.Error, "none"), "nothing is done about VMs that outlive their pods",
			"see kernel, btf, bpffs and agent-capabilities, and restart the agent",
		}
	}
	return finding{OK, fmt.Sprintf("%d of up to %d processes", t.Processes, t.MaxProcesses), "VM processes are tracked", ""}
}

// hook looks for the program that pods have as their preStop hook.
func hook(_ context.Context, s *survey) finding {
	info, err := fs.Stat(s.Root, inside(hookPath))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return finding{
			s.problemIfInstalled(), "no " + hookPath,
			"pods have no /run/mooring/hook: those that call it in a preStop hook do not wait for their VM", "install it again: see docs/how-to/install.md",
		}
	case err != nil:
		return finding{Unknown, hookPath + ": " + cause(err).Error(), "pods are given this program", askAsRoot}
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o555 != 0o555:
		return finding{
			Problem, hookPath + ": " + info.Mode().String(), "not everybody can run it, and so some pods cannot",
			"install it again, with mode 0755",
		}
	}
	return finding{OK, hookPath, "pods are given it as /run/mooring/hook", ""}
}

// nodeLibvirt looks for the libvirt that the node policy names.
func nodeLibvirt(_ context.Context, s *survey) finding {
	path := cmp.Or(s.agent.Policy, defaultPolicy)
	text, err := fs.ReadFile(s.Root, inside(path))
	if errors.Is(err, fs.ErrNotExist) {
		return finding{OK, "no node policy at " + path, "VMs outside of pods are nobody's", ""}
	}
	if err != nil {
		return finding{Unknown, path + ": " + cause(err).Error(), "the node policy says whether there is one", askAsRoot}
	}
	p, err := policy.Parse(text)
	switch {
	case err != nil:
		return finding{Unknown, path + ": " + oneLine(err), "the node policy says whether there is one", "correct it: mooring policy check " + path}
	case p.Lifecycle.Libvirt == nil:
		return finding{OK, "the node policy names none", "VMs outside of pods are nobody's", ""}
	}
	return findLibvirt(s, *p.Lifecycle.Libvirt)
}

func findLibvirt(s *survey, l policy.Libvirt) finding {
	for _, c := range []struct {
		path, want, without string
		mode                fs.FileMode
	}{
		{l.Records, "a directory", "no VM outside of pods is bound to its pod", fs.ModeDir},
		{l.Socket, "a socket", "guests outside of pods are not asked to shut down before they are ended", fs.ModeSocket},
	} {
		info, err := fs.Stat(s.Root, inside(c.path))
		switch {
		case errors.Is(err, fs.ErrPermission):
			return finding{Unknown, c.path + ": " + cause(err).Error(), "the node policy names it", askAsRoot}
		case err != nil:
			return finding{Problem, "no " + c.path, c.without, "start libvirt, or correct lifecycle.libvirt in the node policy"}
		case info.Mode().Type() != c.mode:
			return finding{Problem, fmt.Sprintf("%s is not %s", c.path, c.want), c.without, "correct lifecycle.libvirt in the node policy"}
		}
	}
	return finding{OK, l.Records + " and " + l.Socket, "VMs outside of pods can be bound to their pods", ""}
}
