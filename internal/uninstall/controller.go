package uninstall

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// lookPeriod is the time between two looks at a controller that is to end.
const lookPeriod = 500 * time.Millisecond

// RunningError is that a controller is at work. It would do anew what is undone.
type RunningError struct {
	Holder string // of the lease
	Lease  string // NAMESPACE/NAME
}

func (e *RunningError) Error() string {
	return fmt.Sprintf("a controller is at work, %s, as lease %s says: it would undo this; "+
		"stop it (kubectl scale --replicas=0), or have it stopped (--force)", e.Holder, e.Lease)
}

// stopController returns when none is at work, or none has ended in time.
func (c *Cluster) stopController(ctx context.Context) error {
	holder, err := c.holder(ctx)
	if err != nil {
		return err
	}
	switch {
	case holder != "" && !c.Force && !c.Report.DryRun:
		return &RunningError{Holder: holder, Lease: c.Namespace + "/" + controllerName}
	case !c.Force:
		return nil
	}
	stopped, err := c.scaleDown(ctx)
	if err != nil || !stopped && holder == "" {
		return err
	}
	return c.awaitEnd(ctx)
}

// holder is who has the lease at the moment; empty: nobody has.
func (c *Cluster) holder(ctx context.Context) (string, error) {
	lease := &coordinationv1.Lease{}
	err := c.Client.Get(ctx, c.controllerKey(), lease)
	if err != nil {
		return "", wrap(client.IgnoreNotFound(err), "read lease %s", c.controllerKey())
	}
	spec := lease.Spec
	if spec.HolderIdentity == nil || spec.RenewTime == nil || spec.LeaseDurationSeconds == nil {
		return "", nil
	}
	if c.Now().After(spec.RenewTime.Add(time.Duration(*spec.LeaseDurationSeconds) * time.Second)) {
		return "", nil
	}
	return *spec.HolderIdentity, nil
}

func (c *Cluster) controllerKey() client.ObjectKey {
	return client.ObjectKey{Namespace: c.Namespace, Name: controllerName}
}

// scaleDown reports whether the Deployment had to be.
func (c *Cluster) scaleDown(ctx context.Context) (bool, error) {
	scale, err := c.scale(ctx)
	if err != nil || scale == nil || scale.Spec.Replicas == 0 {
		return false, err
	}
	return true, c.Report.do(fmt.Sprintf("scale Deployment %s down to 0", c.controllerKey()), func() error {
		return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			scale, err := c.scale(ctx)
			if err != nil || scale == nil {
				return err
			}
			scale.Spec.Replicas = 0
			return c.Client.SubResource("scale").Update(ctx, c.deployment(), client.WithSubResourceBody(scale))
		})
	})
}

// scale is nil where there is no Deployment.
func (c *Cluster) scale(ctx context.Context) (*autoscalingv1.Scale, error) {
	scale := &autoscalingv1.Scale{}
	err := c.Client.SubResource("scale").Get(ctx, c.deployment(), scale)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // as said
	}
	return scale, wrap(err, "read the scale of Deployment %s", c.controllerKey())
}

func (c *Cluster) deployment() *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: controllerName}}
}

// awaitEnd returns when the controller's pods are gone and nobody has the lease. One that
// does not end is told of: whoever uninstalls is not held up by it.
func (c *Cluster) awaitEnd(ctx context.Context) error {
	if c.Report.DryRun {
		return nil
	}
	err := wait.PollUntilContextTimeout(ctx, lookPeriod, c.Patience, true, func(ctx context.Context) (bool, error) {
		holder, err := c.holder(ctx)
		if err != nil || holder != "" {
			return false, err
		}
		var pods corev1.PodList
		err = c.Client.List(ctx, &pods, client.InNamespace(c.Namespace), client.MatchingLabels{
			"app.kubernetes.io/name": "mooring", "app.kubernetes.io/component": "controller",
		})
		return err == nil && len(pods.Items) == 0, err
	})
	if wait.Interrupted(err) && ctx.Err() == nil {
		c.Report.tell("the controller has not ended within %s: going on without", c.Patience)
		return nil
	}
	return wrap(err, "wait for the controller to end")
}

func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
}
