package agent

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// stage is a group of tasks with a common end.
type stage struct {
	group  errgroup.Group
	ctx    context.Context
	cancel context.CancelFunc
	fail   context.CancelCauseFunc
}

// newStage returns an empty stage. It takes only the values of ctx, and outlives it. The
// stage calls fail with the error of a failed task.
func newStage(ctx context.Context, fail context.CancelCauseFunc) *stage {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	return &stage{ctx: ctx, cancel: cancel, fail: fail}
}

// run starts a task. The task must return when its context ends.
func (s *stage) run(task func(context.Context) error) {
	s.group.Go(func() error {
		err := task(s.ctx)
		if err != nil {
			s.fail(err)
		}
		return err
	})
}

// do starts a task without an error.
func (s *stage) do(task func(context.Context)) {
	s.run(func(ctx context.Context) error {
		task(ctx)
		return nil
	})
}

// stop ends the tasks, waits for them, and returns the first error.
func (s *stage) stop() error {
	s.cancel()
	return s.group.Wait()
}
