package nodehook

import (
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

// find returns the active launcher of an instance on this node. A request names neither pod nor
// process. The errors are gRPC's.
func (s *Server) find(hook string, i *instance) (registry.Launcher, error) {
	var active, others []registry.Launcher
	for _, l := range s.config.Launchers() {
		if l.State != agentapi.StateRunning || !s.owns(i, l) {
			continue
		}
		if s.isActive(hook, i, l) {
			active = append(active, l)
		} else {
			others = append(others, l)
		}
	}
	switch {
	case len(active) == 1:
		return active[0], nil
	case len(active) > 1:
		return registry.Launcher{}, status.Errorf(codes.FailedPrecondition,
			"%s has %d running launchers on node %s: %s: want one", i, len(active), s.config.Node,
			names(active))
	case len(others) > 0:
		return registry.Launcher{}, status.Errorf(codes.NotFound,
			"%s has no active launcher on node %s: its status does not name %s as %s", i,
			s.config.Node, names(others), role(hook))
	}
	return registry.Launcher{}, status.Errorf(codes.NotFound,
		"%s has no running launcher on node %s", i, s.config.Node)
}

// owns reports whether the instance controls the launcher's pod.
func (s *Server) owns(i *instance, l registry.Launcher) bool {
	owner, ok := s.config.Instance(l.Pod.UID)
	return ok && string(owner.UID) == i.Metadata.UID && owner.Namespace == i.Metadata.Namespace &&
		owner.Name == i.Metadata.Name
}

// isActive reports whether the instance's status names the launcher's pod. A node can have several
// launchers of an instance: that of an earlier migration may still be ending. A status without
// these fields excludes none.
func (s *Server) isActive(hook string, i *instance, l registry.Launcher) bool {
	if hook == PostMigrationTarget {
		target := i.Status.MigrationState.TargetPod
		return target == "" || target == l.Pod.Name
	}
	return len(i.Status.ActivePods) == 0 || i.Status.ActivePods[l.Pod.UID] == s.config.Node
}

// role is the part of the status that isActive reads.
func role(hook string) string {
	if hook == PostMigrationTarget {
		return "migrationState.targetPod"
	}
	return "one of activePods on this node"
}

func names(launchers []registry.Launcher) string {
	var all []string
	for _, l := range launchers {
		all = append(all, fmt.Sprintf("pod %s (UID %s)", l.Pod.Name, l.Pod.UID))
	}
	return strings.Join(all, ", ")
}
