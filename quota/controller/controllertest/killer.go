// Package controllertest has what tests of the quota controller need wherever its API server
// is a fake and where it is real.
package controllertest

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// ErrKilled is what a controller is answered that is not there any more.
var ErrKilled = errors.New("killed")

// Killer lets so many writes be and no more, as a controller does that is killed. It is for
// one goroutine.
type Killer struct {
	At     int  // how many it lets be
	Unsaid bool // the one after them is done, and its answer not heard

	done   int
	killed bool
}

// Killed says whether the controller has come to its end.
func (k *Killer) Killed() bool { return k.killed }

func (k *Killer) write(do func() error) error {
	if k.killed {
		return ErrKilled
	}
	if k.done++; k.done <= k.At {
		return do()
	}
	k.killed = true
	if k.Unsaid {
		_ = do()
	}
	return ErrKilled
}

// Hooks are for the client that the controller writes with.
func (k *Killer) Hooks() interceptor.Funcs {
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return k.write(func() error { return c.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return k.write(func() error { return c.Update(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return k.write(func() error { return c.Patch(ctx, o, p, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return k.write(func() error { return c.Delete(ctx, o, opts...) })
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, name string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			return k.write(func() error { return c.SubResource(name).Update(ctx, o, opts...) })
		},
	}
}
