package main

import (
	"context"
	"fmt"

	nri "github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	"sigs.k8s.io/yaml"

	"github.com/mooring-vm/mooring/plugin"
)

// emptyPlugin subscribes to the same events as Mooring and answers nothing, to measure the round
// trip alone.
type emptyPlugin struct{}

// Synchronize exists so that the stub assembles the list, as for every subscribed plugin.
func (emptyPlugin) Synchronize(
	context.Context, []*nri.PodSandbox, []*nri.Container,
) ([]*nri.ContainerUpdate, error) {
	return nil, nil
}

// CreateContainer returns an empty answer.
func (emptyPlugin) CreateContainer(context.Context, *nri.PodSandbox, *nri.Container) (
	*nri.ContainerAdjustment, []*nri.ContainerUpdate, error,
) {
	return nil, nil, nil
}

// StopPodSandbox does nothing.
func (emptyPlugin) StopPodSandbox(context.Context, *nri.PodSandbox) error { return nil }

// RemovePodSandbox does nothing.
func (emptyPlugin) RemovePodSandbox(context.Context, *nri.PodSandbox) error { return nil }

// RemoveContainer does nothing.
func (emptyPlugin) RemoveContainer(context.Context, *nri.PodSandbox, *nri.Container) error {
	return nil
}

// ulimitsPlugin does the work of NRI's ulimit-adjuster: it sets limits from a YAML annotation of
// the pod.
type ulimitsPlugin struct{ emptyPlugin }

type ulimit struct {
	Type       string `json:"type"`
	Hard, Soft uint64
}

// CreateContainer adds the limits.
//
//nolint:unparam // the stub demands the signature
func (ulimitsPlugin) CreateContainer(_ context.Context, pod *nri.PodSandbox, _ *nri.Container) (
	*nri.ContainerAdjustment, []*nri.ContainerUpdate, error,
) {
	var limits []ulimit
	if err := yaml.Unmarshal([]byte(pod.GetAnnotations()[ulimitsKey]), &limits); err != nil {
		return nil, nil, fmt.Errorf("annotation %s: %w", ulimitsKey, err)
	}
	adjust := &nri.ContainerAdjustment{}
	for _, l := range limits {
		if l.Type == "memlock" {
			adjust.AddRlimit("RLIMIT_MEMLOCK", l.Hard, l.Soft)
		}
	}
	return adjust, nil, nil
}

// answerPlugin returns Mooring's answer for a launcher without Mooring's work. It measures the cost
// to transfer and apply the answer.
type answerPlugin struct{ emptyPlugin }

// CreateContainer returns Mooring's answer under the benchmarks' policy.
//
//nolint:unparam // the stub demands the signature
func (answerPlugin) CreateContainer(_ context.Context, pod *nri.PodSandbox, ctr *nri.Container) (
	*nri.ContainerAdjustment, []*nri.ContainerUpdate, error,
) {
	if ctr.GetName() != launcherName {
		return nil, nil, nil
	}
	adjust := &nri.ContainerAdjustment{Linux: &nri.LinuxContainerAdjustment{
		Resources: &nri.LinuxResources{
			Unified: map[string]string{"memory.high": launcherMemoryHigh}},
	}}
	adjust.AddRlimit("RLIMIT_MEMLOCK", uint64(launcherMemlock), uint64(launcherMemlock))
	for _, file := range []string{"", "/pod/heartbeat", "/pod/stop"} {
		adjust.AddMount(&nri.Mount{
			Destination: plugin.MountPoint + file, Type: "bind",
			Source:  plugin.MountPoint + "/pods/" + pod.GetUid() + file,
			Options: []string{"bind", "rw", "nosuid", "nodev", "noexec", "rprivate"},
		})
	}
	return adjust, nil, nil
}

// serveStub connects a plugin with these handlers.
func serveStub(ctx context.Context, o pluginOptions, handlers any, connect <-chan struct{}) error {
	closed := make(chan struct{})
	s, err := stub.New(handlers, stub.WithPluginName("bench"), stub.WithPluginIdx("50"),
		stub.WithSocketPath(o.socket), stub.WithOnClose(func() { close(closed) }))
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case <-connect:
	}
	if err := s.Start(ctx); err != nil {
		return err
	}
	defer s.Stop()
	select {
	case <-ctx.Done():
	case <-closed:
	}
	return nil
}
