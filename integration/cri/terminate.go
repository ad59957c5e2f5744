package cri

import (
	"context"
	"errors"
	"fmt"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// leastGrace is the least time that kubelet leaves a container after its preStop hook.
const leastGrace = 2 * time.Second

// ErrHookUnfinished means that a preStop hook took the whole grace period. As with kubelet,
// the hook continues in the container.
var ErrHookUnfinished = errors.New("the preStop hook did not end within the grace period")

// PreStop runs a preStop hook as kubelet does, at most for the grace period. It returns the
// remaining grace period for [Instance.StopWithin]. The error is the error of the hook:
// kubelet only reports it.
func (i *Instance) PreStop(ctx context.Context, grace time.Duration, hook ...string) (
	time.Duration, error,
) {
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

// hook runs a command in the container, without a timeout of the runtime.
func (i *Instance) hook(ctx context.Context, args []string) error {
	r, err := i.Sandbox.client.ExecSync(ctx,
		&runtimeapi.ExecSyncRequest{ContainerId: i.ID, Cmd: args})
	if err != nil {
		return fmt.Errorf("running the preStop hook of container %s: %w", i.Name, err)
	}
	if r.ExitCode != 0 {
		return fmt.Errorf("the preStop hook of container %s: exit code %d: %s%s",
			i.Name, r.ExitCode,
			r.Stdout, r.Stderr)
	}
	return nil
}

// StopWithin ends a container with its stop signal, and with SIGKILL after the grace period.
// The grace period counts in whole seconds.
func (i *Instance) StopWithin(ctx context.Context, grace time.Duration) error {
	if err := i.Stop(ctx, int64(grace/time.Second)); err != nil {
		return fmt.Errorf("stopping container %s: %w", i.Name, err)
	}
	return nil
}

// Terminate ends a container as kubelet does: it runs the preStop hook, and then sends the
// stop signal and SIGKILL within the remaining grace period. It continues after an error of
// the hook, and returns this error separately.
func (i *Instance) Terminate(ctx context.Context, grace time.Duration, hook ...string) (
	hookErr, err error,
) {
	left, hookErr := i.PreStop(ctx, grace, hook...)
	return hookErr, i.StopWithin(ctx, left)
}

// Exited reports whether the runtime has noticed the container's end.
func (i *Instance) Exited(ctx context.Context) (bool, error) {
	r, err := i.Sandbox.client.ContainerStatus(ctx,
		&runtimeapi.ContainerStatusRequest{ContainerId: i.ID})
	if err != nil {
		return false, fmt.Errorf("getting the state of container %s: %w", i.Name, err)
	}
	return r.Status.GetState() == runtimeapi.ContainerState_CONTAINER_EXITED, nil
}
