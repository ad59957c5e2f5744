// Package controllertest holds test helpers for the quota controller with a fake or a real API
// server.
package controllertest

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// ErrKilled is the answer to calls of a killed controller.
var ErrKilled = errors.New("killed")

// Killer allows a number of writes, then all calls fail, as if the controller were killed. It is
// for one goroutine.
type Killer struct {
	Writes     int  // number of allowed writes
	AnswerLost bool // the next write succeeds, but its answer is lost

	// Before runs before this next write. It can be the work of a new leader, which the late write
	// of the old one follows. Nil: nothing.
	Before func()

	done   int
	killed bool
}

// Killed reports whether the controller has been killed.
func (k *Killer) Killed() bool { return k.killed }

func (k *Killer) write(do func() error) error {
	if k.killed {
		return ErrKilled
	}
	if k.done++; k.done <= k.Writes {
		return do()
	}
	k.killed = true
	if k.AnswerLost {
		if k.Before != nil {
			k.Before()
		}
		_ = do()
	}
	return ErrKilled
}

// Hooks are hooks for the controller's client.
func (k *Killer) Hooks() interceptor.Funcs {
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object,
			opts ...client.CreateOption) error {
			return k.write(func() error { return c.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object,
			opts ...client.UpdateOption) error {
			return k.write(func() error { return c.Update(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch,
			opts ...client.PatchOption) error {
			return k.write(func() error { return c.Patch(ctx, o, p, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object,
			opts ...client.DeleteOption) error {
			return k.write(func() error { return c.Delete(ctx, o, opts...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, name string, o client.Object,
			opts ...client.SubResourceUpdateOption) error {
			return k.write(func() error { return c.SubResource(name).Update(ctx, o, opts...) })
		},
	}
}
