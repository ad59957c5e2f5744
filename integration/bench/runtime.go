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

// runtime is NRI's own runtime side, as in containerd, for one plugin.
type runtime struct {
	*adaptation.Adaptation
	socket string
	dir    string
	listed []member

	// synced receives the duration of each Synchronize, including the plugin's answer.
	synced chan time.Duration
}

// waitTimeout bounds each wait.
const waitTimeout = time.Minute

// setUpNRI sets NRI's global options. Slow requests must appear in the figures and must not time
// out.
func setUpNRI() {
	nrilog.Set(quiet{})
	adaptation.SetPluginRequestTimeout(waitTimeout)
	adaptation.SetPluginRegistrationTimeout(waitTimeout)
}

// newRuntime starts a runtime that lists these containers to each connecting plugin. With an empty
// socket it uses one in a new directory.
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
		adaptation.WithSocketPath(socket), adaptation.WithPluginPath(none),
		adaptation.WithPluginConfigPath(none))
	if err == nil {
		err = r.Start()
	}
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	<-r.synced // Start synchronizes the plugins of its directory, and there are none
	return r, nil
}

// tmpfs returns a directory in memory, like the agent's pod directories on a node.
func tmpfs() string {
	const memory = "/dev/shm"
	if _, err := os.Stat(memory); err != nil {
		return os.TempDir()
	}
	return memory
}

// list runs when a plugin has connected.
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
		default: // no test reads every connection
		}
	}
	return err
}

func update(context.Context, []*nri.ContainerUpdate) ([]*nri.ContainerUpdate, error) {
	return nil, nil
}

// create calls the plugin for a new container.
func (r *runtime) create(ctx context.Context, m member) (*nri.ContainerAdjustment, error) {
	reply, err := r.CreateContainer(ctx, &nri.CreateContainerRequest{Pod: m.pod, Container: m.ctr})
	return reply.GetAdjust(), err
}

// remove reports the pod's end to the plugin.
func (r *runtime) remove(ctx context.Context, m member) error {
	return errors.Join(
		r.StopPodSandbox(ctx, &nri.StopPodSandboxRequest{Pod: m.pod}),
		r.RemoveContainer(ctx, &nri.RemoveContainerRequest{Pod: m.pod, Container: m.ctr}),
		r.RemovePodSandbox(ctx, &nri.RemovePodSandboxRequest{Pod: m.pod}),
	)
}

// awaitPlugin returns when the plugin is synchronized and registered, with the duration of its
// Synchronize.
func (r *runtime) awaitPlugin(ctx context.Context) (time.Duration, error) {
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case took := <-r.synced:
		r.BlockPluginSync().Unblock() // the runtime registers the plugin only after that
		return took, nil
	}
}

func (r *runtime) close() error {
	r.Stop()
	return os.RemoveAll(r.dir)
}

// quiet is a silent logger for NRI's runtime side, which has only a global logger.
type quiet struct{}

func (quiet) Debugf(context.Context, string, ...any) {}
func (quiet) Infof(context.Context, string, ...any)  {}
func (quiet) Warnf(context.Context, string, ...any)  {}
func (quiet) Errorf(context.Context, string, ...any) {}
