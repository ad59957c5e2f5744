package uninstall

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestControllerAtWork(t *testing.T) {
	c, told := newCluster(t, append(installed(), lease(time.Now()))...)
	err := c.Run(t.Context())
	running, ok := errors.AsType[*RunningError](err)
	if !ok || running.Holder != "controller-1" || len(*told) > 0 {
		t.Errorf("got %v, told %q", err, *told)
	}
	c, _ = newCluster(t, append(installed(), lease(time.Now().Add(-time.Minute)))...)
	if err := c.Run(t.Context()); err != nil {
		t.Errorf("with a lease that has run out: %v", err)
	}
}

func TestControllerIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, told := newCluster(t, append(installed(), lease(time.Now()), deployment(2))...)
		c.Force = true
		if err := c.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if (*told)[0] != "scale Deployment mooring-system/mooring-controller down to 0: done" || len(*told) != 8 {
			t.Errorf("told %q", *told)
		}
		var d appsv1.Deployment
		if err := c.Client.Get(t.Context(), c.controllerKey(), &d); err != nil || *d.Spec.Replicas != 0 {
			t.Errorf("replicas %v, %v", d.Spec.Replicas, err)
		}
	})
}

// A pod that hangs does not hold up who uninstalls.
func TestControllerThatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: DefaultNamespace, Name: "hangs",
			Labels: map[string]string{"app.kubernetes.io/name": "mooring", "app.kubernetes.io/component": "controller"},
		}}
		c, told := newCluster(t, append(installed(), deployment(1), hangs)...)
		c.Force = true
		if err := c.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if (*told)[1] != "the controller's pods have not ended within 1m0s: going on without" {
			t.Errorf("told %q", *told)
		}
		checkCleared(t, c)
	})
}

// Who goes on would be undone: then nothing is changed, and the controller works as before.
func TestControllerThatKeepsItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := lease(time.Now().Add(time.Hour)) // renewed all the time
		objects := append(installed(), kept, deployment(2))
		c, told := newCluster(t, objects...)
		c.Force = true
		err := c.Run(t.Context())
		running, ok := errors.AsType[*RunningError](err)
		if !ok || running.Waited != time.Minute || !strings.Contains(err.Error(), "controller-1, has not let go of lease mooring-system/mooring-controller within 1m0s") {
			t.Errorf("got %v", err)
		}
		if len(*told) != 2 || (*told)[1] != "scale Deployment mooring-system/mooring-controller back to 2: done" {
			t.Errorf("told %q", *told)
		}
		checkUnchanged(t, c, objects)
	})
}

// Who is told to end while it waits leaves no controller behind that was stopped.
func TestInterruptedWhileItWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects := append(installed(), lease(time.Now().Add(time.Hour)), deployment(2))
		c, _ := newCluster(t, objects...)
		c.Force = true
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := c.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		checkUnchanged(t, c, objects)
	})
}
