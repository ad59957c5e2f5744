// Package doctor looks at a node and says what Mooring finds there: what is as it
// should be, what is not, what that means, and how to mend it. It changes nothing,
// needs no agent, and says more as root.
package doctor

import (
	"context"
	"io/fs"
	"runtime/debug"

	"github.com/mooring-vm/mooring/api/agentapi"
)

// Status is how a finding is to be taken.
type Status string

// The statuses.
const (
	OK      Status = "ok"
	Note    Status = "note"    // works, and there is something to know
	Problem Status = "problem" // Mooring does not work, or not as it should
	Unknown Status = "unknown" // could not be found out
)

// Finding is what one check has found. The names of checks are stable.
type Finding struct {
	Check  string `json:"check"`
	Status Status `json:"status"`
	Found  string `json:"found"`
	Means  string `json:"means"`
	Mend   string `json:"mend,omitempty"` // what to do; empty: nothing
}

// Report is what `mooring doctor -o json` prints.
type Report struct {
	Findings []Finding `json:"findings"`
	Problems int       `json:"problems"` // how many findings are one
}

// Machine is the node as the checks see it. Only Root is required: what cannot be
// asked is not known.
type Machine struct {
	// Root is the node's root file system.
	Root fs.FS

	// Config is the path of containerd's configuration; empty: that of the
	// running containerd, or else the default one.
	Config string

	// Runtime asks the container runtime for its version.
	Runtime func(context.Context) (Runtime, error)

	// BuildInfo returns what Go noted in the program that a process runs.
	BuildInfo func(pid int) (*debug.BuildInfo, error)

	// Agent asks the agent.
	Agent func(context.Context) (Agent, error)

	// PodDirs returns nil when the pod directories' tmpfs is mounted as it should be.
	PodDirs func() error

	// Peers lists the processes that are connected to a unix socket.
	Peers func(socket string) ([]Process, error)

	// Version runs a program with --version and returns what it prints. Where
	// pid is not 0, path has to be the file that this process runs. A program
	// that others than root could have put there is not run: that is an error.
	Version func(ctx context.Context, path string, pid int) (string, error)
}

// Runtime is a container runtime that answers. PID is 0 where it is not known.
type Runtime struct {
	Name, Version string
	PID           int
}

// Agent is an agent that answers. PID is 0 where it is not known.
type Agent struct {
	agentapi.Node
	PID int
}

// Process is a process of the node.
type Process struct {
	PID  int
	Name string
}

// check is one look at what the survey gathered.
type check struct {
	name string
	look func(context.Context, *survey) finding
}

// finding is a Finding without the check's name.
type finding struct {
	status             Status
	found, means, mend string
}

func checks() []check {
	return []check{
		{"kernel", kernel},
		{"btf", btf},
		{"bpffs", bpffs},
		{"cgroup-v2", cgroupV2},
		{"cgroup-controllers", cgroupControllers},
		{"containerd", containerd},
		{"nri", nri},
		{"nri-timeouts", nriTimeouts},
		{"failure-policy", failurePolicy},
		{"validator", validator},
		{"neighbours", neighbours},
		{"oci-runtime", ociRuntime},
		{"kubelet", kubelet},
		{"default-memlock", defaultMemlock},
		{"pod-directories", podDirectories},
		{"hook", hook},
		{"node-libvirt", nodeLibvirt},
		{"agent", agent},
		{"agent-capabilities", agentCapabilities},
		{"tracker", tracker},
	}
}

// Examine looks at a node. It blocks on the file system and on those that are
// asked, for as long as ctx lets it.
func Examine(ctx context.Context, m Machine) Report {
	s := newSurvey(ctx, m)
	var r Report
	for _, c := range checks() {
		f := c.look(ctx, s)
		r.Findings = append(r.Findings, Finding{Check: c.name, Status: f.status, Found: f.found, Means: f.means, Mend: f.mend})
		if f.status == Problem {
			r.Problems++
		}
	}
	return r
}
