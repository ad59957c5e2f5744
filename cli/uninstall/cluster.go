package uninstall

import (
	"context"
	"errors"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
)

// Names that the chart gives to what is looked for here.
const (
	DefaultNamespace = "mooring-system"

	controllerName = "mooring-controller" // its Deployment and its lease
	guardName      = "mooring-guard"
	launcherName   = "mooring-launcher"
)

// policyBindings put the chart's policies into force.
func policyBindings() []string {
	return []string{"mooring-annotations", "mooring-launchers", "mooring-namespace-annotations", "mooring-quota-annotations", "mooring-vm-annotations"}
}

// Cluster is what Mooring has put into a cluster.
type Cluster struct {
	Client    client.Client // without a cache, with the scheme of [NewClient]
	Namespace string        // the controller's
	Quota     quota.Options // those of the controller

	// Force stops the controller where one is at work. Without, that is an error.
	Force bool

	// Patience is how long a stopped controller may take to end.
	Patience time.Duration

	Now    func() time.Time
	Report Report
}

// NewClient returns a client for a [Cluster].
func NewClient(config *rest.Config) (client.Client, error) {
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, autoscalingv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(known); err != nil {
			return nil, err
		}
	}
	config = rest.CopyConfig(config)
	config.QPS = -1 // the API server shares itself out fairly
	return client.New(config, client.Options{Scheme: known})
}

// Run takes it away. Nothing is changed where a quota's base cannot be read, nor where a
// controller stays at work, a [*RunningError]. After that it goes on after an error with
// what does not depend on it, and returns all of them. CRDs, roles and what runs are left
// to whoever has applied them.
func (c *Cluster) Run(ctx context.Context) error {
	if err := c.checkQuotas(ctx); err != nil {
		return err
	}
	if err := c.stopController(ctx); err != nil {
		return err
	}
	// Webhooks first: they would be asked about the rest, and nobody answers.
	return errors.Join(
		c.removeHooks(ctx),
		c.restoreQuotas(ctx),
		c.removeReservations(ctx),
		c.clearNamespaces(ctx),
	)
}

func (c *Cluster) removeHooks(ctx context.Context) error {
	errs := []error{
		c.remove(ctx, &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: guardName}}),
		c.remove(ctx, &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: launcherName}}),
	}
	for _, name := range policyBindings() {
		binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: name}}
		errs = append(errs, c.remove(ctx, binding))
	}
	return errors.Join(errs...)
}

// remove deletes an object that may not be there.
func (c *Cluster) remove(ctx context.Context, o client.Object) error {
	kind, err := c.Client.GroupVersionKindFor(o)
	if err != nil {
		return err
	}
	err = c.Client.Get(ctx, client.ObjectKeyFromObject(o), o)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("look for %s %s: %w", kind.Kind, o.GetName(), err)
	}
	return c.Report.do(fmt.Sprintf("remove %s %s", kind.Kind, o.GetName()), func() error {
		return client.IgnoreNotFound(c.Client.Delete(ctx, o))
	})
}
