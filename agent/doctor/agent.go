package doctor

import (
	"context"
	"errors"
	"io/fs"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/api/agentapi"
)

// podDirectories looks at the tmpfs that the agent does not start without.
func podDirectories(_ context.Context, s *survey) finding {
	if s.PodDirs == nil {
		return finding{Unknown, "not looked at", "the agent needs a tmpfs of its own, with bounds", ""}
	}
	if err := s.PodDirs(); err != nil {
		return finding{s.problemIfInstalled(), err.Error(), "the agent does not start without it",
			"start run-mooring.mount, or run `mooring-agent prepare`"}
	}
	return finding{OK, "a tmpfs of its own at /run/mooring, with bounds", "pods cannot fill the node's /run", ""}
}

// agent looks at the agent that runs here.
func agent(_ context.Context, s *survey) finding {
	switch {
	case errors.Is(s.agentErr, fs.ErrPermission):
		return finding{Unknown, s.agentErr.Error(), "only root may ask the agent", askAsRoot}
	case s.agentErr != nil && !s.installed():
		return finding{Note, "not installed", "nothing is set for launchers", "see docs/how-to/install.md"}
	case s.agentErr != nil:
		return finding{Problem, s.agentErr.Error(), "nothing is set for new launchers; those that require the agent are refused",
			"look at its log: journalctl -u mooring-agent"}
	}
	found := strings.TrimSpace(s.agent.Version+", mode "+s.agent.Mode) + ", NRI " + string(s.agent.NRI.State)
	switch {
	case s.agent.NRI.State != agentapi.NRISynchronized:
		return finding{Problem, found + ": " + s.agent.NRI.Error, "the agent has no connection to the runtime: nothing is set for new launchers",
			"see nri, and journalctl -u mooring-agent"}
	case s.agent.Mode == "observe":
		return finding{Note, found, "nothing is set and nobody is refused: the agent says what it would do",
			"set `mode: enforce` in " + s.agent.Policy + " when the rules are as you want them, and restart the agent"}
	}
	return finding{OK, found, "launchers get what " + s.agent.Policy + " allows", ""}
}

// capability is one that the agent needs.
type capability struct {
	bit     int
	name    string
	without string // what does not work
}

func neededCapabilities() []capability {
	return []capability{
		{unix.CAP_SYS_RESOURCE, "CAP_SYS_RESOURCE", "limits of launchers can neither be read nor raised"},
		{unix.CAP_BPF, "CAP_BPF", "VM processes are not tracked"},
		{unix.CAP_PERFMON, "CAP_PERFMON", "VM processes are not tracked"},
		{unix.CAP_KILL, "CAP_KILL", "VM processes of other users are not ended"},
	}
}

// agentCapabilities looks whether the agent can do what it is there for.
func agentCapabilities(_ context.Context, s *survey) finding {
	const needs = "to read and raise limits, and to track and end VM processes, it needs some"
	if s.agent.PID == 0 {
		return finding{Unknown, "the agent's process is not known", needs, ""}
	}
	status, err := s.read(procPath(s.agent.PID, "status"))
	if err != nil {
		return finding{Unknown, err.Error(), needs, askAsRoot}
	}
	effective, ok := capabilities(status)
	if !ok {
		return finding{Unknown, "no line CapEff", needs, ""}
	}
	var has []string
	for _, c := range neededCapabilities() {
		if effective&(1<<c.bit) == 0 {
			return finding{Problem, "no " + c.name, c.without,
				"take away the drop-in that drops it, or give it in the DaemonSet's securityContext"}
		}
		has, effective = append(has, c.name), effective&^(1<<c.bit)
	}
	found := strings.Join(has, ", ")
	if effective != 0 {
		return finding{Note, found + " and others", "more than the agent needs", "use the shipped unit or DaemonSet"}
	}
	return finding{OK, found, "all that the agent needs, and nothing else", ""}
}

// capabilities reads the effective ones from the content of /proc/PID/status.
func capabilities(status string) (effective uint64, ok bool) {
	for line := range strings.Lines(status) {
		if hex, is := strings.CutPrefix(line, "CapEff:"); is {
			effective, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
			return effective, err == nil
		}
	}
	return 0, false
}
