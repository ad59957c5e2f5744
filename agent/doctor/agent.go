package doctor

import (
	"context"
	"errors"
	"io/fs"
	"strconv"
	"strings"

	"github.com/mooring-vm/mooring/api/agentapi"
)

// podDirectories checks the tmpfs of the agent. The agent does not start without it.
func podDirectories(_ context.Context, s *survey) finding {
	if s.PodDirs == nil {
		return finding{
			Unknown,
			"not checked",
			"the agent needs a tmpfs of its own, with bounds",
			"",
		}
	}
	if err := s.PodDirs(); err != nil {
		return finding{
			s.problemIfInstalled(), err.Error(), "the agent does not start without its tmpfs",
			"start run-mooring.mount, or run `mooring-agent prepare`",
		}
	}
	return finding{
		OK,
		"a tmpfs of its own at /run/mooring, with bounds",
		"pods cannot fill the node's /run",
		"",
	}
}

// agent checks the reported state of this node's agent.
func agent(_ context.Context, s *survey) finding {
	switch {
	case errors.Is(s.agentErr, fs.ErrPermission):
		return finding{Unknown, s.agentErr.Error(), "only root can query the agent", asRoot}
	case s.agentErr != nil && !s.installed():
		return finding{
			Note,
			"not installed",
			"launchers get no settings",
			"see docs/how-to/install.md",
		}
	case s.agentErr != nil:
		return finding{
			Problem, s.agentErr.Error(),
			"new launchers get no settings; launchers that require the agent are refused",
			"read its log: journalctl -u mooring-agent",
		}
	}
	state := string(s.agent.NRI.State)
	found := strings.TrimSpace(s.agent.Version+", mode "+s.agent.Mode) + ", NRI " + state
	switch {
	case s.agent.NRI.State != agentapi.NRISynchronized:
		return finding{
			Problem, found + ": " + s.agent.NRI.Error,
			"the agent has no connection to the runtime: new launchers get no settings",
			"see nri, and journalctl -u mooring-agent",
		}
	case s.agent.Mode == "observe":
		return finding{
			Note, found,
			"the agent sets nothing and refuses nothing; it reports what enforce mode would do",
			"set `mode: enforce` in " + s.agent.Policy + " once the rules are right, and " +
				"restart the agent",
		}
	}
	return finding{OK, found, "launchers get the settings that " + s.agent.Policy + " allows", ""}
}

// Bits of capabilities(7). Package unix defines them for Linux only.
const (
	capKill        = 5
	capIPCLock     = 14
	capSysResource = 24
	capPerfmon     = 38
	capBPF         = 39
)

// capability is a Linux capability of the agent.
type capability struct {
	bit     int
	name    string
	without string // the consequence of its absence
}

func neededCapabilities() []capability {
	return []capability{
		{
			capSysResource,
			"CAP_SYS_RESOURCE",
			"the agent can neither read nor raise the limits of launchers",
		},
		{capBPF, "CAP_BPF", "VM processes are not tracked"},
		{capPerfmon, "CAP_PERFMON", "VM processes are not tracked"},
		{capKill, "CAP_KILL", "VM processes of other users are not ended"},
	}
}

// agentCapabilities compares the agent's effective capabilities with the needed ones.
func agentCapabilities(_ context.Context, s *survey) finding {
	const needs = "the agent needs capabilities to read and raise limits, " +
		"and to track and end VM processes"
	if s.agent.PID == 0 {
		return finding{Unknown, "the agent's process is not known", needs, ""}
	}
	status, err := s.read(procPath(s.agent.PID, "status"))
	if err != nil {
		return finding{Unknown, err.Error(), needs, asRoot}
	}
	effective, ok := parseCapabilities(status)
	if !ok {
		return finding{Unknown, "no line CapEff", needs, ""}
	}
	var has []string
	for _, c := range neededCapabilities() {
		if effective&(1<<c.bit) == 0 {
			return finding{
				Problem, "no " + c.name, c.without,
				"remove the drop-in that takes the capability away, or add it to the " +
					"DaemonSet's securityContext",
			}
		}
		has, effective = append(has, c.name), effective&^(1<<c.bit)
	}
	found := strings.Join(has, ", ")
	if effective != 0 {
		return finding{
			Note,
			found + " and others",
			"more than the agent needs",
			"use the shipped unit or DaemonSet",
		}
	}
	return finding{OK, found, "exactly the capabilities that the agent needs", ""}
}

// parseCapabilities reads the effective capabilities from the content of /proc/PID/status.
func parseCapabilities(status string) (effective uint64, ok bool) {
	for line := range strings.Lines(status) {
		if hex, is := strings.CutPrefix(line, "CapEff:"); is {
			effective, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
			return effective, err == nil
		}
	}
	return 0, false
}
