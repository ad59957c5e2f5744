package cri

import (
	"context"
	"errors"
	"fmt"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// leastGrace is what the kubelet leaves a container after its hook, however long
// that took.
const leastGrace = 2 * time.Second

// ErrHookUnfinished is a preStop hook that took the whole grace period. It goes on
// in the container, as with the kubelet.
var ErrHookUnfinished = errors.New("the preStop hook did not end within the grace period")

// PreStop runs a preStop hook as the kubelet does, for as long as the grace period
// at the most, and returns what remains of that for [Instance.StopWithin]. The
// error is the hook's, which the kubelet only reports.
func (i *Instance) PreStop(ctx context.Context, grace time.Duration, hook ...string) (time.Duration, error) {
	began := time.Now()
	ended := make(chan error, 1)
	go func() { ended <- i.hook(context.WithoutCancel(ctx), hook) }()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	var err error
	select {
	case err = <-ended:
	case <-timer.C:
		err = ErrHookUnfinished
	case <-ctx.Done():
		err = ctx.Err()
	}
	return max(grace-time.Since(began), leastGrace), err
}

// hook runs a command in the container without a time-out of the runtime's.
func (i *Instance) hook(ctx context.Context, args []string) error {
	r, err := i.Sandbox.client.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: i.ID, Cmd: args})
	if err != nil {
		return fmt.Errorf("running the preStop hook of container %s: %w", i.Name, err)
	}
	if r.ExitCode != 0 {
		return fmt.Errorf("the preStop hook of container %s: exit code %d: %s%s", i.Name, r.ExitCode, r.Stdout, r.Stderr)
	}
	return nil
}

// StopWithin ends a container with its stop signal, and with SIGKILL after the
// grace period, which counts in whole seconds.
func (i *Instance) StopWithin(ctx context.Context, grace time.Duration) error {
	if err := i.Stop(ctx, int64(grace/time.Second)); err != nil {
		return fmt.Errorf("stopping container %s: %w", i.Name, err)
	}
	return nil
}

// Terminate ends a container as the kubelet does: its preStop hook, then the stop
// signal and SIGKILL within what the hook leaves of the grace period. The hook's
// error does not keep it from going on, and is returned apart.
func (i *Instance) Terminate(ctx context.Context, grace time.Duration, hook ...string) (hookErr, err error) {
	left, hookErr := i.PreStop(ctx, grace, hook...)
	return hookErr, i.StopWithin(ctx, left)
}

// Exited reports whether the runtime has seen the container's end.
func (i *Instance) Exited(ctx context.Context) (bool, error) {
	r, err := i.Sandbox.client.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: i.ID})
	if err != nil {
		return false, fmt.Errorf("asking for the state of container %s: %w", i.Name, err)
	}
	return r.Status.GetState() == runtimeapi.ContainerState_CONTAINER_EXITED, nil
}
