package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/mooring-vm/mooring/agent/admin"
	"github.com/mooring-vm/mooring/api/agentapi"
)

// find returns the launchers of a pod, given as NAMESPACE/NAME, NAME or UID.
func find(ctx context.Context, client *admin.Client, pod string) ([]agentapi.Launcher, error) {
	if namespace, name, ok := strings.Cut(pod, "/"); ok {
		if namespace == "" || name == "" || strings.Contains(name, "/") {
			return nil, usage("pod %q: want NAMESPACE/NAME, NAME or UID", pod)
		}
		return client.LaunchersOfPod(ctx, namespace, name)
	}
	all, err := client.Launchers(ctx)
	if err != nil {
		return nil, err
	}
	return findAmong(all, pod, "on this node")
}

// findAmong returns the launchers of a pod, given as NAME or UID.
func findAmong(all []agentapi.Launcher, pod, where string) ([]agentapi.Launcher, error) {
	found := matching(all, func(p agentapi.PodRef) bool { return p.UID == pod })
	if len(found) == 0 {
		found = matching(all, func(p agentapi.PodRef) bool { return p.Name == pod })
	}
	if len(found) == 0 {
		return nil,
			&admin.NotFoundError{Message: fmt.Sprintf("no pod %q with a launcher %s",
				pod, where)}
	}
	return found, unambiguous(pod, found)
}

func matching(all []agentapi.Launcher, keep func(agentapi.PodRef) bool) []agentapi.Launcher {
	return slices.DeleteFunc(slices.Clone(all), func(l agentapi.Launcher) bool {
		return !keep(l.Pod)
	})
}

func unambiguous(name string, found []agentapi.Launcher) error {
	var pods []string
	for _, l := range found {
		pods = append(pods, l.Pod.Namespace+"/"+l.Pod.Name)
	}
	slices.Sort(pods)
	pods = slices.Compact(pods)
	if len(pods) > 1 {
		return usage("pod %q is ambiguous: want one of %s", name, strings.Join(pods, ", "))
	}
	return nil
}
