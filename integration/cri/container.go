package cri

import (
	"context"
	"encoding/json"
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/mooring-vm/mooring/hack/throwaway/image"
)

// Container describes a container of a test.
type Container struct {
	Name string
	// Args is the command. If empty, the container sleeps forever.
	Args []string
	// MemoryLimit is in bytes. 0 means no limit.
	MemoryLimit int64
	// User is the uid of the container.
	User int64
	// Devices are devices of the node, for reading and writing.
	Devices []string
	// Mounts maps mount points in the container to directories of the node, read-only.
	Mounts map[string]string
	// Shared is like Mounts, but writable.
	Shared map[string]string
	// Privileged requires a privileged pod.
	Privileged bool
}

// Instance is a created container.
type Instance struct {
	Container
	ID      string
	Sandbox *Sandbox
}

func (c Container) config() *runtimeapi.ContainerConfig {
	args := c.Args
	if len(args) == 0 {
		args = []string{"sleep", "2147483647"}
	}
	return &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: c.Name},
		Image:    &runtimeapi.ImageSpec{Image: image.BusyboxImage},
		Command:  args,
		LogPath:  c.Name + ".log",
		Labels:   map[string]string{"io.kubernetes.container.name": c.Name},
		Devices:  c.devices(),
		Mounts:   c.mounts(),
		Linux: &runtimeapi.LinuxContainerConfig{
			Resources: &runtimeapi.LinuxContainerResources{MemoryLimitInBytes: c.MemoryLimit,
				CpuShares:   102,
				OomScoreAdj: 900},
			SecurityContext: &runtimeapi.LinuxContainerSecurityContext{
				RunAsUser:  &runtimeapi.Int64Value{Value: c.User},
				Privileged: c.Privileged,
				NoNewPrivs: !c.Privileged,
				Seccomp: &runtimeapi.SecurityProfile{
					ProfileType: runtimeapi.SecurityProfile_RuntimeDefault},
			},
		},
	}
}

func (c Container) devices() []*runtimeapi.Device {
	var all []*runtimeapi.Device
	for _, path := range c.Devices {
		all = append(all, &runtimeapi.Device{ContainerPath: path, HostPath: path,
			Permissions: "rw"})
	}
	return all
}

func (c Container) mounts() []*runtimeapi.Mount {
	var all []*runtimeapi.Mount
	for at, path := range c.Mounts {
		all = append(all, &runtimeapi.Mount{ContainerPath: at, HostPath: path, Readonly: true})
	}
	for at, path := range c.Shared {
		all = append(all, &runtimeapi.Mount{ContainerPath: at, HostPath: path})
	}
	return all
}

// Create creates a container without starting it.
func (s *Sandbox) Create(ctx context.Context, c Container) (*Instance, error) {
	config := c.config()
	config.Linux.SecurityContext.NamespaceOptions = s.namespaces()
	r, err := s.client.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: s.ID, Config: config, SandboxConfig: s.config,
	})
	if err != nil {
		return nil, fmt.Errorf("creating container %s of pod %s: %w", c.Name, s.Name, err)
	}
	return &Instance{Container: c, ID: r.ContainerId, Sandbox: s}, nil
}

// Run creates a container and starts it.
func (s *Sandbox) Run(ctx context.Context, c Container) (*Instance, error) {
	i, err := s.Create(ctx, c)
	if err != nil {
		return nil, err
	}
	return i, i.Start(ctx)
}

// Adopt returns a container of kubelet.
func (c *Client) Adopt(p Pod, name, id string) *Instance {
	return &Instance{Container: Container{Name: name}, ID: id, Sandbox: &Sandbox{Pod: p, client: c}}
}

// Start starts a created container.
func (i *Instance) Start(ctx context.Context) error {
	_, err := i.Sandbox.client.StartContainer(ctx,
		&runtimeapi.StartContainerRequest{ContainerId: i.ID})
	if err != nil {
		return fmt.Errorf("starting container %s of pod %s: %w", i.Name, i.Sandbox.Name, err)
	}
	return nil
}

// Stop ends a container with its stop signal, and with SIGKILL after timeout seconds.
func (i *Instance) Stop(ctx context.Context, timeout int64) error {
	_, err := i.Sandbox.client.StopContainer(ctx,
		&runtimeapi.StopContainerRequest{ContainerId: i.ID, Timeout: timeout})
	return err
}

// Remove removes a container, even a running one.
func (i *Instance) Remove(ctx context.Context) error {
	_, err := i.Sandbox.client.RemoveContainer(ctx,
		&runtimeapi.RemoveContainerRequest{ContainerId: i.ID})
	return err
}

// execTimeout is in seconds. It is less than callTimeout, because the runtime's error says more.
const execTimeout = 500

// Exec runs a command in the container and returns its standard output.
func (i *Instance) Exec(ctx context.Context, args ...string) (string, error) {
	r, err := i.Sandbox.client.ExecSync(ctx,
		&runtimeapi.ExecSyncRequest{ContainerId: i.ID, Cmd: args,
			Timeout: execTimeout})
	if err != nil {
		return "", fmt.Errorf("running %v in container %s: %w", args, i.Name, err)
	}
	if r.ExitCode != 0 {
		return string(r.Stdout), fmt.Errorf("running %v in container %s: exit code %d: %s",
			args, i.Name,
			r.ExitCode, r.Stderr)
	}
	return string(r.Stdout), nil
}

// Pid returns the pid of the container's first process on the node.
func (i *Instance) Pid(ctx context.Context) (int, error) {
	r, err := i.Sandbox.client.ContainerStatus(ctx,
		&runtimeapi.ContainerStatusRequest{ContainerId: i.ID, Verbose: true})
	if err != nil {
		return 0, fmt.Errorf("getting the pid of container %s: %w", i.Name, err)
	}
	var info struct {
		Pid int `json:"pid"`
	}
	if err := json.Unmarshal([]byte(r.Info["info"]), &info); err != nil {
		return 0, fmt.Errorf("reading the pid of container %s: %w", i.Name, err)
	}
	return info.Pid, nil
}

// Resources are the resources in kubelet's request for an in-place resize.
type Resources struct {
	MemoryLimit int64  // bytes
	CPUQuota    int64  // microseconds of each 100 ms; 0: unchanged
	CPUs        string // cpuset of the static CPU manager; empty: unchanged
}

// Update changes the container's resources.
func (i *Instance) Update(ctx context.Context, r Resources) error {
	_, err := i.Sandbox.client.UpdateContainerResources(ctx,
		&runtimeapi.UpdateContainerResourcesRequest{
			ContainerId: i.ID,
			Linux: &runtimeapi.LinuxContainerResources{
				MemoryLimitInBytes: r.MemoryLimit, CpuShares: 102, OomScoreAdj: 900,
				CpuPeriod: 100000, CpuQuota: r.CPUQuota, CpusetCpus: r.CPUs,
			},
		})
	if err != nil {
		return fmt.Errorf("updating container %s: %w", i.Name, err)
	}
	return nil
}
