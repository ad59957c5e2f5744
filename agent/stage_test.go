package agent

import (
	"context"
	"errors"
	"testing"
)

func TestStage(t *testing.T) {
	broken := errors.New("broken")
	ctx, fail := context.WithCancelCause(t.Context())
	s := newStage(ctx, fail)
	release := make(chan struct{})
	ended := false
	s.do(func(ctx context.Context) {
		<-ctx.Done()
		ended = true
	})
	s.run(func(context.Context) error {
		<-release
		return broken
	})
	close(release)
	<-ctx.Done()
	if cause := context.Cause(ctx); !errors.Is(cause, broken) {
		t.Errorf("cause %v, want the error of the task", cause)
	}
	if s.ctx.Err() != nil {
		t.Error("the stage ended with its parent context")
	}
	if err := s.stop(); !errors.Is(err, broken) || !ended {
		t.Errorf("stop = %v, ended %t; want the error of one task and the end of the other", err,
			ended)
	}
}
