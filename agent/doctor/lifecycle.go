package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/internal/plaintext"
)

const (
	bpffsRoot     = "/sys/fs/bpf"
	defaultPolicy = "/etc/mooring/policy.yaml"
)

// Paths of the launchers' program on the node: of the unit and of the DaemonSet.
const (
	unitHook = "/usr/local/libexec/mooring/mooring-hook"
	podHook  = "/opt/mooring/libexec/mooring-hook"
)

// bpffs checks the file system of the tracker's maps, which must outlive the agent.
func bpffs(_ context.Context, s *survey) finding {
	mounts, err := s.mounts()
	if err != nil {
		return finding{Unknown, err.Error(), "the mounts cannot be read", "mount procfs at /proc"}
	}
	if mountTypes(mounts)[bpffsRoot] == "bpf" {
		return finding{
			OK,
			"bpffs at " + bpffsRoot,
			"the tracker's records of VM processes outlive the agent",
			"",
		}
	}
	return finding{
		s.problemIfInstalled(), "no bpffs at " + bpffsRoot,
		"VM processes are not tracked while the agent is away, and the fence knows none of them",
		"restart the agent's pod, which mounts it; without the chart: mount -t bpf bpf " +
			bpffsRoot + " before the agent starts, as systemd does on most nodes",
	}
}

// tracker checks whether the agent tracks VM processes.
func tracker(_ context.Context, s *survey) finding {
	t := s.agent.Tracker
	switch {
	case s.agentErr != nil && !s.installed():
		return finding{
			Note,
			"not installed",
			"VM processes are not tracked",
			"see docs/how-to/install.md",
		}
	case s.agentErr != nil:
		return finding{
			Unknown, "the agent does not answer",
			"only the agent knows whether VM processes are tracked", "see agent",
		}
	case !t.Available:
		return finding{
			Problem, cmp.Or(t.Error, "none"), "VMs that outlive their pods are not stopped",
			"see kernel, btf, bpffs and agent-capabilities, and restart the agent",
		}
	}
	return finding{
		OK,
		fmt.Sprintf("%d of up to %d processes", t.Processes, t.MaxProcesses),
		"VM processes are tracked",
		"",
	}
}

// hook checks the program for the preStop hooks of pods.
func hook(_ context.Context, s *survey) finding {
	hookPath := unitHook
	if s.InPod || !s.exists(unitHook) && s.exists(podHook) {
		hookPath = podHook
	}
	info, err := fs.Stat(s.Root, fsPath(hookPath))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return finding{
			s.problemIfInstalled(), "no " + hookPath,
			"pods have no /run/mooring/hook: a preStop hook that calls it does not wait for the VM",
			"install it again: see docs/how-to/install.md",
		}
	case err != nil:
		return finding{
			Unknown,
			hookPath + ": " + withoutPath(err).Error(),
			"pods get this program",
			asRoot,
		}
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o555 != 0o555:
		return finding{
			Problem, hookPath + ": " + info.Mode().String(),
			"some users cannot run it, and so some pods cannot",
			"install it again, with mode 0755",
		}
	}
	return finding{OK, hookPath, "pods get it as /run/mooring/hook", ""}
}

// nodeLibvirt checks the libvirt in the node policy.
func nodeLibvirt(_ context.Context, s *survey) finding {
	p, unread := s.nodePolicy()
	switch {
	case p == nil:
		return unread
	case p.Lifecycle.Libvirt == nil:
		return finding{OK, "the node policy names no libvirt", noOwner, ""}
	}
	return findLibvirt(s, *p.Lifecycle.Libvirt)
}

const noOwner = "VMs outside of pods belong to no pod"

// nodePolicy returns the agent's policy, or nil and the finding for its absence.
func (s *survey) nodePolicy() (*policy.Policy, finding) {
	const inPolicy = "the node policy names the node's libvirt, if there is one"
	path := cmp.Or(s.agent.Policy, defaultPolicy)
	if !strings.HasPrefix(path, "/") {
		return nil, finding{Unknown, path + " is in force", inPolicy + "; this check reads files only",
			"compare the NodePolicy: kubectl get nodepolicies -o yaml"}
	}
	root := s.Root
	if s.AgentRoot != nil {
		root = s.AgentRoot
	}
	text, err := fs.ReadFile(root, fsPath(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, finding{OK, "no node policy at " + path, noOwner, ""}
	}
	if err != nil {
		return nil, finding{Unknown, path + ": " + withoutPath(err).Error(), inPolicy, asRoot}
	}
	p, err := policy.Parse(text)
	if err != nil {
		return nil, finding{
			Unknown,
			path + ": " + plaintext.OneLine(err.Error()),
			inPolicy,
			"correct it: mooring policy check " + path,
		}
	}
	return p, finding{}
}

func findLibvirt(s *survey, l policy.Libvirt) finding {
	for _, c := range []struct {
		path, want, without string
		mode                fs.FileMode
	}{
		{l.Records, "a directory", "no VM outside of pods is bound to its pod", fs.ModeDir},
		{l.Socket, "a socket", "guests outside of pods get no request to shut down before their " +
			"VM is ended", fs.ModeSocket},
	} {
		info, err := fs.Stat(s.Root, fsPath(c.path))
		switch {
		case errors.Is(err, fs.ErrPermission):
			return finding{
				Unknown,
				c.path + ": " + withoutPath(err).Error(),
				"the node policy names it",
				asRoot,
			}
		case err != nil:
			return finding{
				Problem,
				"no " + c.path,
				c.without,
				"start libvirt, or correct lifecycle.libvirt in the node policy",
			}
		case info.Mode().Type() != c.mode:
			return finding{
				Problem, fmt.Sprintf("%s is not %s", c.path, c.want), c.without,
				"correct lifecycle.libvirt in the node policy",
			}
		}
	}
	return finding{
		OK,
		l.Records + " and " + l.Socket,
		"VMs outside of pods can be bound to their pods",
		"",
	}
}
