package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/containerd/nri/pkg/adaptation"
	nri "github.com/containerd/nri/pkg/api"
	nrilog "github.com/containerd/nri/pkg/log"
)

// runtime is NRI's own runtime side, as containerd has it, for one plugin.
type runtime struct {
	*adaptation.Adaptation
	socket string
	dir    string
	listed []member

	// synced tells how long each Synchronize took, until the plugin's answer.
	synced chan time.Duration
}

// patience is how long anything is waited for.
const patience = time.Minute

// setUpNRI sets what NRI has but once for a program. Busy machines are slow: a
// request that takes long is to be seen in the figures.
func setUpNRI() {
	nrilog.Set(quiet{})
	adaptation.SetPluginRequestTimeout(patience)
	adaptation.SetPluginRegistrationTimeout(patience)
}

// newRuntime starts a runtime that lists these containers to each plugin that
// connects to socket. An empty socket stands for one in a folder of its own.
func newRuntime(socket string, listed []member) (*runtime, error) {
	dir, err := os.MkdirTemp(tmpfs(), "bench-nri")
	if err != nil {
		return nil, err
	}
	if socket == "" {
		socket = filepath.Join(dir, "nri.sock")
	}
	r := &runtime{socket: socket, dir: dir, listed: listed, synced: make(chan time.Duration, 16)}
	none := filepath.Join(dir, "none")
	r.Adaptation, err = adaptation.New("bench", "v1.0.0", r.list, update,
		adaptation.WithSocketPath(socket), adaptation.WithPluginPath(none), adaptation.WithPluginConfigPath(none))
	if err == nil {
		err = r.Start()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	<-r.synced // Start synchronises the plugins of its folder, of which there are none
	return r, nil
}

// tmpfs is a folder in memory, as the agent's pod directories are on a node.
func tmpfs() string {
	const memory = "/dev/shm"
	if _, err := os.Stat(memory); err != nil {
		return os.TempDir()
	}
	return memory
}

// list is called when a plugin has connected.
func (r *runtime) list(ctx context.Context, synchronize adaptation.SyncCB) error {
	pods, ctrs := make([]*nri.PodSandbox, len(r.listed)), make([]*nri.Container, len(r.listed))
	for i, m := range r.listed {
		pods[i], ctrs[i] = m.pod, m.ctr
	}
	began := time.Now()
	_, err := synchronize(ctx, pods, ctrs)
	if err == nil {
		select {
		case r.synced <- time.Since(began):
		default: // nobody asks about every connection
		}
	}
	return err
}

func update(context.Context, []*nri.ContainerUpdate) ([]*nri.ContainerUpdate, error) { return nil, nil }

// create asks the plugin about a container that is to be created.
func (r *runtime) create(ctx context.Context, m member) (*nri.ContainerAdjustment, error) {
	reply, err := r.CreateContainer(ctx, &nri.CreateContainerRequest{Pod: m.pod, Container: m.ctr})
	return reply.GetAdjust(), err
}

// remove tells the plugin that the pod is gone.
func (r *runtime) remove(ctx context.Context, m member) error {
	return errors.Join(
		r.StopPodSandbox(ctx, &nri.StopPodSandboxRequest{Pod: m.pod}),
		r.RemoveContainer(ctx, &nri.RemoveContainerRequest{Pod: m.pod, Container: m.ctr}),
		r.RemovePodSandbox(ctx, &nri.RemovePodSandboxRequest{Pod: m.pod}),
	)
}

// awaitPlugin returns when the plugin is synchronised and asked, and how long its
// Synchronize took.
func (r *runtime) awaitPlugin(ctx context.Context) (time.Duration, error) {
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case took := <-r.synced:
		r.BlockPluginSync().Unblock() // the runtime counts the plugin in only after that
		return took, nil
	}
}

func (r *runtime) close() error {
	r.Stop()
	return os.RemoveAll(r.dir)
}

// quiet is a logger for NRI's runtime side, which can only be set globally.
type quiet struct{}

func (quiet) Debugf(context.Context, string, ...any) {}
func (quiet) Infof(context.Context, string, ...any)  {}
func (quiet) Warnf(context.Context, string, ...any)  {}
func (quiet) Errorf(context.Context, string, ...any) {}
