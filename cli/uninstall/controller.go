package uninstall

import (
	"context"
	"errors"
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

// scaleBackTimeout bounds what is done after the time for the rest is over.
const scaleBackTimeout = 10 * time.Second

// RunningError is that a controller is at work. It would do anew what is undone.
type RunningError struct {
	Holder string        // of the lease
	Lease  string        // NAMESPACE/NAME
	Waited time.Duration // after its Deployment was scaled down; 0: it was not
}

func (e *RunningError) Error() string {
	if e.Waited > 0 {
		return fmt.Sprintf("a controller, %s, has not let go of lease %s within %s: it would undo this; "+
			"see to it that it ends, and try again", e.Holder, e.Lease, e.Waited)
	}
	return fmt.Sprintf("a controller is at work, %s, as lease %s says: it would undo this; "+
		"stop it (kubectl scale --replicas=0), or have it stopped (--force)", e.Holder, e.Lease)
}

// stopController returns when none is at work. One that stays at work is a
// [*RunningError], and its Deployment is then as it was.
func (c *Cluster) stopController(ctx context.Context) error {
	holder, err := c.holder(ctx)
	if err != nil {
		return err
	}
	switch {
	case holder != "" && !c.Force && !c.Report.DryRun:
		return &RunningError{Holder: holder, Lease: c.controllerKey().String()}
	case !c.Force:
		return nil
	}
	replicas, err := c.scaleDown(ctx)
	if err != nil || replicas == 0 && holder == "" {
		return err
	}
	if err := c.awaitEnd(ctx); err != nil {
		return errors.Join(err, c.scaleBack(ctx, replicas))
	}
	return nil
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

// scaleDown returns how many replicas the Deployment had.
func (c *Cluster) scaleDown(ctx context.Context) (int32, error) {
	scale, err := c.scale(ctx)
	if err != nil || scale == nil || scale.Spec.Replicas == 0 {
		return 0, err
	}
	return scale.Spec.Replicas, c.Report.do(fmt.Sprintf("scale Deployment %s down to 0", c.controllerKey()), func() error {
		return c.scaleTo(ctx, 0)
	})
}

// scaleBack undoes scaleDown, also when ctx is over.
func (c *Cluster) scaleBack(ctx context.Context, replicas int32) error {
	if replicas == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), scaleBackTimeout)
	defer cancel()
	return c.Report.do(fmt.Sprintf("scale Deployment %s back to %d", c.controllerKey(), replicas), func() error {
		return c.scaleTo(ctx, replicas)
	})
}

func (c *Cluster) scaleTo(ctx context.Context, replicas int32) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		scale, err := c.scale(ctx)
		if err != nil || scale == nil {
			return err
		}
		scale.Spec.Replicas = replicas
		return c.Client.SubResource("scale").Update(ctx, c.deployment(), client.WithSubResourceBody(scale))
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

// awaitEnd returns when the controller's pods are gone and nobody has the lease. A lease
// that somebody holds on to is an error. A pod that does not end, as on a node that is lost,
// is told of: without the lease it does nothing, and whoever uninstalls is not held up by it.
func (c *Cluster) awaitEnd(ctx context.Context) error {
	if c.Report.DryRun {
		return nil
	}
	var holder string
	err := wait.PollUntilContextTimeout(ctx, lookPeriod, c.Patience, true, func(ctx context.Context) (ended bool, err error) {
		if holder, err = c.holder(ctx); err != nil || holder != "" {
			return false, err
		}
		return c.podsGone(ctx)
	})
	switch {
	case !wait.Interrupted(err) || ctx.Err() != nil:
		return wrap(err, "wait for the controller to end")
	case holder != "":
		return &RunningError{Holder: holder, Lease: c.controllerKey().String(), Waited: c.Patience}
	}
	c.Report.tell("the controller's pods have not ended within %s: going on without", c.Patience)
	return nil
}

func (c *Cluster) podsGone(ctx context.Context) (bool, error) {
	var pods corev1.PodList
	err := c.Client.List(ctx, &pods, client.InNamespace(c.Namespace), client.MatchingLabels{
		"app.kubernetes.io/name": "mooring", "app.kubernetes.io/component": "controller",
	})
	return err == nil && len(pods.Items) == 0, err
}

func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
}
