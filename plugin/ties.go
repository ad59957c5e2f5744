package plugin

import (
	"errors"
	"fmt"
	"path"
	"strings"

	nri "github.com/containerd/nri/pkg/api"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

// Ties ties the VM processes of launchers to their pods: see [supervisor.Supervisor]. The methods
// do not block.
type Ties interface {
	Register(l registry.Launcher, cgroup string) error
	LauncherStarted(l registry.Launcher)
	ScanLauncher(containerID string)
	HasPod(uid string) bool
	Reconciled()
}

// NoTies is a Ties without effect, for a node whose kernel cannot track processes.
type NoTies struct{}

var _ Ties = NoTies{}

// Register implements [Ties].
func (NoTies) Register(registry.Launcher, string) error { return nil }

// LauncherStarted implements [Ties].
func (NoTies) LauncherStarted(registry.Launcher) {}

// ScanLauncher implements [Ties].
func (NoTies) ScanLauncher(string) {}

// Reconciled implements [Ties].
func (NoTies) Reconciled() {}

// HasPod implements [Ties].
func (NoTies) HasPod(string) bool { return false }

// registerTie starts tracking a launcher's processes before the first one runs. After an error the
// agent starts tracking once the launcher runs.
func (p *Plugin) registerTie(ctr *nri.Container) {
	l, ok := p.Registry.Find(ctr.GetId())
	if !ok {
		return
	}
	cgroup, err := cgroupOf(ctr.GetLinux().GetCgroupsPath())
	if err := errors.Join(err, p.Ties.Register(l, cgroup)); err != nil {
		p.log(l).Warn("cannot track the launcher's processes before its start", "error", err)
	}
}

// startTie reports a running launcher to Ties.
func (p *Plugin) startTie(containerID string) {
	if l, ok := p.Registry.Find(containerID); ok && l.State == agentapi.StateRunning {
		p.Ties.LauncherStarted(l)
	}
}

// keepsPod reports whether a launcher, a VM or a sidecar of a pod remains.
func (p *Plugin) keepsPod(uid string) bool {
	return p.Registry.HasPod(uid) || p.Ties.HasPod(uid) || p.sidecars.has(uid)
}

// cgroupOf returns the path of a container's cgroup below the root of the hierarchy. The OCI
// runtime specification does not define the form. runc and crun take a path, or with systemd
// SLICE:PREFIX:NAME for the scope PREFIX-NAME.scope.
func cgroupOf(cgroupsPath string) (string, error) {
	if cgroupsPath == "" {
		return "", fmt.Errorf("the runtime gives no cgroups path for the container")
	}
	slice, scope, ok := strings.Cut(cgroupsPath, ":")
	if !ok {
		return path.Join("/", cgroupsPath), nil
	}
	prefix, name, ok := strings.Cut(scope, ":")
	if !ok || !strings.HasSuffix(slice, ".slice") && slice != "" || name == "" {
		return "", fmt.Errorf("cgroups path %q of the container: want a path, or SLICE:PREFIX:NAME",
			cgroupsPath)
	}
	unit := name
	if !strings.HasSuffix(name, ".slice") {
		unit = name + ".scope"
		if prefix != "" {
			unit = prefix + "-" + unit
		}
	}
	return path.Join(expandSlice(slice), unit), nil
}

// podCgroup returns the cgroup of a pod. parent is a path, or with systemd also the name of a
// slice.
func podCgroup(parent string) string {
	if slice := path.Base(parent); strings.HasSuffix(slice, ".slice") {
		return expandSlice(slice)
	}
	return path.Join("/", parent)
}

// expandSlice returns the cgroup of a systemd slice: a-b.slice is below a.slice.
// systemd.slice(5)
func expandSlice(slice string) string {
	name := strings.TrimSuffix(slice, ".slice")
	if name == "" || name == "-" {
		return "/"
	}
	dir, prefix := "/", ""
	for part := range strings.SplitSeq(name, "-") {
		prefix += part
		dir = path.Join(dir, prefix+".slice")
		prefix += "-"
	}
	return dir
}
