package kubevirttest

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// patience is the deadline of one wait. It is long because the machine may be busy, and measures no
// performance.
const patience = 5 * time.Minute

// Eventually polls done until it returns true, and fails t after the deadline.
func Eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true,
		func(context.Context) (bool, error) { return done(), nil })
	if err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}

// get refreshes an existing object.
func (c *Cluster) get(t testing.TB, o client.Object) {
	t.Helper()
	if err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		t.Fatal(err)
	}
}

// patch changes the current version of an object.
func patch[T client.Object](t testing.TB, c *Cluster, o T, change func(T)) {
	t.Helper()
	c.get(t, o)
	before := o.DeepCopyObject().(client.Object)
	change(o)
	if err := c.Client.Patch(t.Context(), o, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// annotate sets an annotation, or removes it if value is nil.
func (c *Cluster) annotate(t testing.TB, o client.Object, key string, value *string) {
	t.Helper()
	patch(t, c, o, func(o client.Object) {
		all := o.GetAnnotations()
		if all == nil {
			all = map[string]string{}
		}
		if value == nil {
			delete(all, key)
		} else {
			all[key] = *value
		}
		o.SetAnnotations(all)
	})
}

// cleanUp returns a context for work after t, because t's own context has ended by then.
func cleanUp(t testing.TB) context.Context { return context.WithoutCancel(t.Context()) }
