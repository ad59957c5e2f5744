package cri

import (
	"context"
	"fmt"
	"maps"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Pod describes a pod of a test.
type Pod struct {
	Namespace, Name, UID string
	Labels, Annotations  map[string]string
	// Handler is containerd's runtime handler. Empty means the default one.
	Handler string
	// UserNamespace maps the pod's root to this uid of the host. 0 means no user namespace.
	UserNamespace uint32
	// PIDs selects the pid namespace of the pod's containers.
	PIDs PIDs
	// Privileged allows privileged containers.
	Privileged bool
}

// PIDs names a pid namespace by its owner.
type PIDs string

// The pid namespaces of containers.
const (
	OwnPIDs  PIDs = ""     // one for each container
	PodPIDs  PIDs = "pod"  // shareProcessNamespace
	NodePIDs PIDs = "node" // hostPID
)

func (p PIDs) mode() runtimeapi.NamespaceMode {
	switch p {
	case PodPIDs:
		return runtimeapi.NamespaceMode_POD
	case NodePIDs:
		return runtimeapi.NamespaceMode_NODE
	default:
		return runtimeapi.NamespaceMode_CONTAINER
	}
}

// Sandbox is a running pod.
type Sandbox struct {
	Pod
	ID     string
	client *Client
	config *runtimeapi.PodSandboxConfig
}

// CgroupParent returns the pod's slice, as kubelet's systemd driver names it.
func (p Pod) CgroupParent() string {
	return "kubepods-burstable-pod" + strings.ReplaceAll(p.UID, "-", "_") + ".slice"
}

func (p Pod) config() *runtimeapi.PodSandboxConfig {
	labels := map[string]string{
		"io.kubernetes.pod.name":      p.Name,
		"io.kubernetes.pod.namespace": p.Namespace,
		"io.kubernetes.pod.uid":       p.UID,
	}
	maps.Copy(labels, p.Labels)
	c := &runtimeapi.PodSandboxConfig{
		Metadata: &runtimeapi.PodSandboxMetadata{Name: p.Name, Namespace: p.Namespace,
			Uid: p.UID},
		LogDirectory: "/var/log/pods/" + p.Namespace + "_" + p.Name + "_" + p.UID,
		Labels:       labels,
		Annotations:  p.Annotations,
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent: p.CgroupParent(),
			SecurityContext: &runtimeapi.LinuxSandboxSecurityContext{
				NamespaceOptions: p.namespaces(),
				Privileged:       p.Privileged,
				Seccomp: &runtimeapi.SecurityProfile{
					ProfileType: runtimeapi.SecurityProfile_RuntimeDefault},
			},
		},
	}
	return c
}

// namespaces shares the node's network: a pod without a network of its own starts a second
// faster.
func (p Pod) namespaces() *runtimeapi.NamespaceOption {
	ns := &runtimeapi.NamespaceOption{Network: runtimeapi.NamespaceMode_NODE, Pid: p.PIDs.mode()}
	if p.UserNamespace != 0 {
		ids := []*runtimeapi.IDMapping{{HostId: p.UserNamespace, Length: 65536}}
		ns.Network = runtimeapi.NamespaceMode_POD // the host's network excludes a user namespace
		ns.UsernsOptions = &runtimeapi.UserNamespace{Mode: runtimeapi.NamespaceMode_POD, Uids: ids,
			Gids: ids}
	}
	return ns
}

// RunPod starts a pod's sandbox.
func (c *Client) RunPod(ctx context.Context, p Pod) (*Sandbox, error) {
	config := p.config()
	r, err := c.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: config,
		RuntimeHandler: p.Handler})
	if err != nil {
		return nil, fmt.Errorf("running pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	return &Sandbox{Pod: p, ID: r.PodSandboxId, client: c, config: config}, nil
}

// Remove stops and removes the pod with its containers. It kills the containers first: CRI-O
// would let them run until the timeout of the call.
func (s *Sandbox) Remove(ctx context.Context) error {
	if err := s.kill(ctx); err != nil {
		return fmt.Errorf("stopping the containers of pod %s: %w", s.Name, err)
	}
	if _, err := s.client.StopPodSandbox(ctx,
		&runtimeapi.StopPodSandboxRequest{PodSandboxId: s.ID}); err != nil {
		return fmt.Errorf("stopping pod %s: %w", s.Name, err)
	}
	return s.RemoveByForce(ctx)
}

// RemoveByForce removes the pod without stopping it first. A missing pod is no error, as in CRI. It
// removes the containers before their pod, as kubelet does. If containerd 2.4 removes the
// containers with the pod, it can deadlock with an NRI plugin that connects: RemovePodSandbox takes
// a read lock and then a nested one for each container, while the plugin waits for the write lock.
func (s *Sandbox) RemoveByForce(ctx context.Context) error {
	all, err := s.containers(ctx, nil)
	if err != nil {
		return fmt.Errorf("listing the containers of pod %s: %w", s.Name, err)
	}
	for _, i := range all {
		if err := i.Remove(ctx); err != nil {
			return fmt.Errorf("removing container %s of pod %s: %w", i.ID, s.Name, err)
		}
	}
	if _, err := s.client.RemovePodSandbox(ctx,
		&runtimeapi.RemovePodSandboxRequest{PodSandboxId: s.ID}); err != nil {
		return fmt.Errorf("removing pod %s: %w", s.Name, err)
	}
	return nil
}

func (s *Sandbox) kill(ctx context.Context) error {
	running, err := s.containers(ctx,
		&runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING})
	if err != nil {
		return err
	}
	for _, i := range running {
		if err := i.Stop(ctx, 0); err != nil {
			return err
		}
	}
	return nil
}

// containers returns the pod's containers in a state. A nil state means all containers.
func (s *Sandbox) containers(ctx context.Context, state *runtimeapi.ContainerStateValue) (
	[]*Instance, error,
) {
	filter := &runtimeapi.ContainerFilter{PodSandboxId: s.ID, State: state}
	found, err := s.client.ListContainers(ctx, &runtimeapi.ListContainersRequest{Filter: filter})
	if err != nil {
		return nil, err
	}
	var all []*Instance
	for _, c := range found.Containers {
		all = append(all, &Instance{ID: c.Id, Sandbox: s})
	}
	return all, nil
}
