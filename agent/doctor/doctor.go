// Package doctor examines a node: its kernel, cgroups, container runtime, kubelet and agent. Each
// check reports a finding, its meaning and a remedy. The checks change nothing and need no agent.
// As root they find more.
package doctor

import (
	"context"
	"io/fs"
	"runtime/debug"

	"github.com/containerd/containerd/v2/cmd/containerd/server/config"

	"github.com/mooring-vm/mooring/api/agentapi"
)

// Status grades a finding.
type Status string

// The statuses.
const (
	OK      Status = "ok"
	Note    Status = "note"    // works, with a limitation or a risk
	Problem Status = "problem" // Mooring does not work, or only in part
	Unknown Status = "unknown" // the check found no answer
)

// Finding is the result of one check. The names of checks are stable.
type Finding struct {
	Check  string `json:"check"`
	Status Status `json:"status"`
	Found  string `json:"found"`
	Means  string `json:"means"`
	Mend   string `json:"mend,omitempty"` // the remedy; empty: none is needed
}

// Report is the output of `mooring doctor -o json`.
type Report struct {
	Findings []Finding `json:"findings"`
	Problems int       `json:"problems"` // the number of findings with status problem
}

// Machine gives the checks access to a node. Only Root is required. Without one of the
// functions, its facts are unknown.
type Machine struct {
	// Root is the node's root file system.
	Root fs.FS

	// InPod reports that the checks run in the agent's pod. Some facts are not visible there.
	InPod bool

	// AgentRoot is the root file system of the agent. If it is nil, it is Root.
	AgentRoot fs.FS

	// Config is the path of containerd's configuration. If it is empty, the checks take the path
	// from the running containerd, or else the default path.
	Config string

	// LoadConfig reads containerd's configuration and its imports.
	LoadConfig func(ctx context.Context, path string) (*config.Config, error)

	// Runtime asks the container runtime for its version.
	Runtime func(context.Context) (Runtime, error)

	// BuildInfo returns the build information in the program of a process.
	BuildInfo func(pid int) (*debug.BuildInfo, error)

	// Agent asks the agent for its state.
	Agent func(context.Context) (Agent, error)

	// PodDirs returns nil if the tmpfs of the pod directories is mounted correctly.
	PodDirs func() error

	// ProbeGate reports whether the libvirt at a socket refuses the probe of the start gate.
	ProbeGate func(ctx context.Context, socket string) (works bool, err error)

	// IOMMUFD returns the pids of processes with a descriptor of /dev/iommu. The error wraps
	// [fs.ErrPermission] if they are visible to root only.
	IOMMUFD func() (pids []int, err error)

	// Peers lists the client processes of a listening unix socket.
	Peers func(socket string) ([]Process, error)

	// Version runs a program with --version and returns its output. If pid is not 0, path must be
	// the file that this process runs. If a user other than root could have written the program,
	// Version returns an error and does not run it.
	Version func(ctx context.Context, path string, pid int) (string, error)
}

// Runtime is the answer of a container runtime. A PID of 0 means unknown.
type Runtime struct {
	Name, Version string
	PID           int
}

// Agent is the answer of an agent. A PID of 0 means unknown.
type Agent struct {
	agentapi.Node
	PID int
}

// Process is a process of the node.
type Process struct {
	PID  int
	Name string
}

// check derives one finding from the survey.
type check struct {
	name string
	run  func(context.Context, *survey) finding
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
		{"iommufd", iommufd},
		{"pod-directories", podDirectories},
		{"hook", hook},
		{"node-libvirt", nodeLibvirt},
		{"start-gate", startGate},
		{"agent", agent},
		{"agent-capabilities", agentCapabilities},
		{"tracker", tracker},
	}
}

// Examine runs all checks on a node. It blocks on the file system, the runtime and the agent, at
// most until ctx ends.
func Examine(ctx context.Context, m Machine) Report {
	s := newSurvey(ctx, m)
	var r Report
	for _, c := range checks() {
		f := c.run(ctx, s)
		if m.InPod && f.mend == asRoot {
			f.mend = onNode
		}
		r.Findings = append(r.Findings, Finding{
			Check: c.name, Status: f.status, Found: f.found, Means: f.means, Mend: f.mend,
		})
		if f.status == Problem {
			r.Problems++
		}
	}
	return r
}
