package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/virt"
)

// Name is the controller's name in metrics, logs and Events.
const Name = agentapi.ControllerReporter

const (
	// kindsPeriod is the period of checks for missing kinds.
	kindsPeriod = 5 * time.Second

	// Minimum and maximum wait after a failure.
	minFailureDelay = 5 * time.Millisecond
	maxFailureDelay = 30 * time.Second
)

// NewScheme returns a scheme with the controller's types.
func NewScheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kubescheme.AddToScheme,
		kubevirtv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Options are options of [Add].
type Options struct {
	Quota   quota.Options
	Workers int  // namespaces handled concurrently
	Halt    bool // halt VMs without room: [Halter]
	Resize  bool // give VMs the size that they are annotated with: [resizevm.Reconciler]
	// Guarded is that of [Config].
	Guarded func(namespace string) bool
	Metrics *Metrics
	Logger  *slog.Logger
}

// Controller is the quota controller as part of a manager.
type Controller struct {
	manager manager.Manager
	options Options
	unready atomic.Pointer[error]
	missing string // the logged error about missing kinds
}

// Add adds the quota controller to a manager with the scheme of [NewScheme] and [CacheOptions]. It
// starts when the API server serves all watched kinds and the manager leads. Without KubeVirt's
// kinds the controller is ready: it has nothing to do, and the webhooks of its pod must get
// requests.
func Add(m manager.Manager, o Options) (*Controller, error) {
	c := &Controller{manager: m, options: o}
	c.setUnready(errors.New("has not begun"))
	return c, m.Add(c)
}

// NeedLeaderElection returns false: caches fill before leadership.
func (c *Controller) NeedLeaderElection() bool { return false }

// Start waits for the kinds, starts the controller and returns when its caches are filled.
func (c *Controller) Start(ctx context.Context) error {
	if !c.awaitKinds(ctx) {
		return nil
	}
	recorder, err := c.newRecorder(ctx)
	if err != nil {
		return err
	}
	cached := c.manager.GetClient()
	reconciler := NewReconciler(Config{
		Client: cached, Live: c.manager.GetAPIReader(), Events: recorder,
		Cluster: func(ctx context.Context) (virt.Cluster, error) { return virt.Read(ctx, cached) },
		Guarded: c.options.Guarded,
		Options: c.options.Quota, Metrics: c.options.Metrics, Logger: c.options.Logger,
	})
	err = c.add(Name, reconciler, c.sources()...)
	if err == nil && c.options.Halt {
		vmis := source.Kind[client.Object](c.manager.GetCache(), vmiMetadata(),
			&handler.EnqueueRequestForObject{})
		err = c.add(Name+"-halt", NewHalter(reconciler), vmis)
	}
	if err == nil && c.options.Resize {
		err = c.manager.Add(&resizes{c, reconciler})
	}
	if err != nil {
		return fmt.Errorf("starting the quota controller: %w", err)
	}
	return c.awaitCaches(ctx)
}

// awaitKinds returns true when the kinds are served, false when ctx ends first.
func (c *Controller) awaitKinds(ctx context.Context) bool {
	there := func(context.Context) (bool, error) { return c.kindsServed(), nil }
	return wait.PollUntilContextCancel(ctx, kindsPeriod, true, there) == nil
}

// awaitCaches returns when the caches are filled or the controller ends.
func (c *Controller) awaitCaches(ctx context.Context) error {
	for _, w := range watches() {
		c.setUnready(fmt.Errorf("the cache of a %T is not filled", w.object))
		if _, err := c.manager.GetCache().GetInformer(ctx, w.object); err != nil &&
			ctx.Err() == nil {
			return fmt.Errorf("filling the cache of a %T: %w", w.object, err)
		}
	}
	c.setUnready(ctx.Err())
	return nil
}

// Ready returns the reason why the controller is not ready, or nil. It is a probe check.
func (c *Controller) Ready(*http.Request) error { return *c.unready.Load() }

func (c *Controller) setUnready(err error) { c.unready.Store(&err) }

// kindsServed reports whether the API server serves all kinds, and logs missing ones once.
func (c *Controller) kindsServed() bool {
	mapper, scheme := c.manager.GetRESTMapper(), c.manager.GetScheme()
	all := watches()
	missing := missingKinds(all, mapper, scheme)
	if len(missing) == 0 {
		c.options.Metrics.setKubeVirtServed()
		return true
	}
	isKubeVirt := func(w watchedKind) bool { return w.kubeVirt }
	now := fmt.Errorf("the API server does not serve %s: are KubeVirt's and Mooring's CRDs "+
		"installed?", strings.Join(missing, ", "))
	if c.missing != now.Error() {
		c.missing = now.Error()
		c.options.Logger.Warn("waiting for missing kinds", "error", now)
	}
	if len(missingKinds(slices.DeleteFunc(all, isKubeVirt), mapper, scheme)) == 0 {
		now = nil
	}
	c.setUnready(now)
	return false
}

// missingKinds returns the kinds that the API server does not serve, or the error of the check.
func missingKinds(all []watchedKind, served meta.RESTMapper, scheme *runtime.Scheme) []string {
	var missing []string
	for _, w := range all {
		gvk, err := apiutil.GVKForObject(w.object, scheme)
		if err == nil {
			_, err = served.RESTMapping(gvk.GroupKind(), gvk.Version)
		}
		switch {
		case meta.IsNoMatchError(err):
			missing = append(missing, gvk.GroupKind().String())
		case err != nil:
			missing = append(missing, fmt.Sprintf("%s (%v)", gvk.GroupKind(), err))
		}
	}
	return missing
}

func (c *Controller) sources() []source.Source {
	var all []source.Source
	for _, w := range watches() {
		all = append(all, w.source(c.manager.GetCache()))
	}
	return all
}

// add adds a controller with its workers to the manager.
func (c *Controller) add(name string, by reconcile.Reconciler, from ...source.Source) error {
	options := controller.Options{
		Reconciler:              by,
		MaxConcurrentReconciles: c.options.Workers,
		RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](
			minFailureDelay,
			maxFailureDelay),
		EnableWarmup: new(true), // so the caches of the next leader are filled
	}
	options.DefaultFromConfig(c.manager.GetControllerOptions())
	inner, err := controller.NewUnmanaged(name, options)
	if err != nil {
		return err
	}
	for _, s := range from {
		if err := inner.Watch(s); err != nil {
			return err
		}
	}
	return c.manager.Add(inner)
}
