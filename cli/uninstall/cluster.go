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

// Names given by the chart.
const (
	DefaultNamespace = "mooring-system"

	controllerName = "mooring-controller" // its Deployment and its lease
	guardName      = "mooring-guard"
	launcherName   = "mooring-launcher"
)

// policyBindings returns the bindings of the chart's policies.
func policyBindings() []string {
	return []string{"mooring-annotations", "mooring-launchers", "mooring-namespace-annotations",
		"mooring-quota-annotations", "mooring-vm-annotations", "mooring-vm-sizes"}
}

// Cluster describes Mooring's state in a cluster.
type Cluster struct {
	Client    client.Client // uncached, from [NewClient]
	Namespace string        // of the controller
	Quota     quota.Options // of the controller

	// Force stops a running controller. Without Force, a running controller is an error.
	Force bool

	// Patience is the time for a stopped controller to end.
	Patience time.Duration

	Now    func() time.Time
	Report Report
}

// NewClient returns a client for a [Cluster].
func NewClient(config *rest.Config) (client.Client, error) {
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, autoscalingv1.AddToScheme,
		v1alpha1.AddToScheme} {
		if err := add(known); err != nil {
			return nil, err
		}
	}
	config = rest.CopyConfig(config)
	config.QPS = -1 // leave rate limits to the API server's fair queuing
	return client.New(config, client.Options{Scheme: known})
}

// Run removes Mooring's state. It changes no object if a quota's base is unreadable or if a
// controller keeps running ([*RunningError]). Afterwards it continues after errors with independent
// steps and returns all of them. It does not remove CRDs, roles and workloads.
func (c *Cluster) Run(ctx context.Context) error {
	if err := c.checkQuotas(ctx); err != nil {
		return err
	}
	if err := c.stopController(ctx); err != nil {
		return err
	}
	// Remove webhooks first: they would be called about the other changes, and no controller
	// answers.
	return errors.Join(
		c.removeHooks(ctx),
		c.restoreQuotas(ctx),
		c.removeReservations(ctx),
		c.clearNamespaces(ctx),
		c.ReleasePods(ctx),
	)
}

func (c *Cluster) removeHooks(ctx context.Context) error {
	errs := []error{
		c.remove(ctx, &admissionv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: guardName}}),
		c.remove(ctx, &admissionv1.MutatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: launcherName}}),
	}
	for _, name := range policyBindings() {
		binding := &admissionv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name}}
		errs = append(errs, c.remove(ctx, binding))
	}
	return errors.Join(errs...)
}

// remove deletes an object if it exists.
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
