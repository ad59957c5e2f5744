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

// pollPeriod is the time between two checks of an ending controller.
const pollPeriod = 500 * time.Millisecond

// scaleBackTimeout bounds the scale back after the end of the caller's context.
const scaleBackTimeout = 10 * time.Second

// RunningError reports a running controller. It would repeat the removed changes.
type RunningError struct {
	Holder string        // holder of the lease
	Lease  string        // NAMESPACE/NAME
	Waited time.Duration // after its Deployment was scaled down, 0 if it was not
}

func (e *RunningError) Error() string {
	if e.Waited > 0 {
		return fmt.Sprintf("controller %s still holds lease %s after %s: it would repeat the "+
			"removed changes; "+
			"end it, then try again", e.Holder, e.Lease, e.Waited)
	}
	return fmt.Sprintf("a controller is at work: %s holds lease %s and would repeat the removed "+
		"changes; "+
		"stop it (kubectl scale --replicas=0), or use --force", e.Holder, e.Lease)
}

// stopController returns nil if no controller runs any more. Otherwise it returns [*RunningError],
// and the Deployment has its former replicas.
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

// holder returns the current holder of the lease, empty without one.
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

// scaleDown scales the Deployment to 0 and returns its former replicas.
func (c *Cluster) scaleDown(ctx context.Context) (int32, error) {
	scale, err := c.scale(ctx)
	if err != nil || scale == nil || scale.Spec.Replicas == 0 {
		return 0, err
	}
	return scale.Spec.Replicas,
		c.Report.do(fmt.Sprintf("scale Deployment %s down to 0", c.controllerKey()), func() error {
			return c.scaleTo(ctx, 0)
		})
}

// scaleBack restores the replicas, even after the end of ctx.
func (c *Cluster) scaleBack(ctx context.Context, replicas int32) error {
	if replicas == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), scaleBackTimeout)
	defer cancel()
	return c.Report.do(fmt.Sprintf("scale Deployment %s back to %d", c.controllerKey(), replicas),
		func() error {
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
		return c.Client.SubResource("scale").Update(ctx, c.deployment(),
			client.WithSubResourceBody(scale))
	})
}

// scale returns nil without a Deployment.
func (c *Cluster) scale(ctx context.Context) (*autoscalingv1.Scale, error) {
	scale := &autoscalingv1.Scale{}
	err := c.Client.SubResource("scale").Get(ctx, c.deployment(), scale)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // documented above
	}
	return scale, wrap(err, "read the scale of Deployment %s", c.controllerKey())
}

func (c *Cluster) deployment() *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace,
		Name: controllerName}}
}

// awaitEnd returns when the controller's pods are gone and its lease has no holder. A lease that
// stays held is an error. A pod that does not end, for example on a lost node, is only printed:
// without the lease it does not act.
func (c *Cluster) awaitEnd(ctx context.Context) error {
	if c.Report.DryRun {
		return nil
	}
	var holder string
	err := wait.PollUntilContextTimeout(ctx, pollPeriod, c.Patience, true,
		func(ctx context.Context) (ended bool, err error) {
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
	c.Report.printf("the controller's pods have not ended within %s: continuing", c.Patience)
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
