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
	c, printed := newCluster(t, append(installed(), lease(time.Now()))...)
	err := c.Run(t.Context())
	running, ok := errors.AsType[*RunningError](err)
	if !ok || running.Holder != "controller-1" || len(*printed) > 0 {
		t.Errorf("got %v, printed %q", err, *printed)
	}
	c, _ = newCluster(t, append(installed(), lease(time.Now().Add(-time.Minute)))...)
	if err := c.Run(t.Context()); err != nil {
		t.Errorf("with a lease that has run out: %v", err)
	}
}

func TestControllerIsStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, printed := newCluster(t, append(installed(), lease(time.Now()), deployment(2))...)
		c.Force = true
		if err := c.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if (*printed)[0] != "scale Deployment mooring-system/mooring-controller down to 0: done" ||
			len(*printed) != 8 {
			t.Errorf("printed %q", *printed)
		}
		var d appsv1.Deployment
		if err := c.Client.Get(t.Context(), c.controllerKey(), &d); err != nil ||
			*d.Spec.Replicas != 0 {
			t.Errorf("replicas %v, %v", d.Spec.Replicas, err)
		}
	})
}

// A hanging pod does not block the uninstall.
func TestControllerThatDoesNotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: DefaultNamespace, Name: "hangs",
			Labels: map[string]string{"app.kubernetes.io/name": "mooring",
				"app.kubernetes.io/component": "controller"},
		}}
		c, printed := newCluster(t, append(installed(), deployment(1), hangs)...)
		c.Force = true
		if err := c.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
		if (*printed)[1] != "the controller's pods have not ended within 1m0s: continuing" {
			t.Errorf("printed %q", *printed)
		}
		checkCleared(t, c)
	})
}

// A controller that keeps its lease would repeat the changes. So the uninstall changes no object
// and scales the controller back.
func TestControllerThatKeepsItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kept := lease(time.Now().Add(time.Hour)) // renewed continuously
		objects := append(installed(), kept, deployment(2))
		c, printed := newCluster(t, objects...)
		c.Force = true
		err := c.Run(t.Context())
		running, ok := errors.AsType[*RunningError](err)
		if !ok || running.Waited != time.Minute ||
			!strings.Contains(err.Error(), "controller controller-1 still holds lease "+
				"mooring-system/mooring-controller after 1m0s") {
			t.Errorf("got %v", err)
		}
		if len(*printed) != 2 || (*printed)[1] != "scale Deployment "+
			"mooring-system/mooring-controller back to 2: done" {
			t.Errorf("printed %q", *printed)
		}
		checkUnchanged(t, c, objects)
	})
}

// An interrupted wait scales the stopped controller back.
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
