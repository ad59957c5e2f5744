package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
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

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/virt"
)

// Name is that of the controller in metrics, logs and Events.
const Name = "mooring-quota"

const (
	// kindsPeriod is how often kinds that are missing are looked for.
	kindsPeriod = 5 * time.Second

	// The first and the longest wait after a failure.
	minFailureDelay = 5 * time.Millisecond
	maxFailureDelay = 30 * time.Second
)

// NewScheme returns a scheme with the types that the controller deals with.
func NewScheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{kubescheme.AddToScheme, kubevirtv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Options are those of [Add].
type Options struct {
	Quota   quota.Options
	Workers int  // how many namespaces are dealt with at once
	Halt    bool // VMs that lack room: [Halter]
	Metrics *Metrics
	Logger  *slog.Logger
}

// Controller is the quota controller as part of a manager.
type Controller struct {
	manager manager.Manager
	options Options
	unready atomic.Pointer[error]
}

// Add adds the quota controller to a manager, whose scheme is [NewScheme]'s and whose
// caches have [CacheOptions]. It begins when the API server knows all kinds that it
// watches, and the manager leads.
func Add(m manager.Manager, o Options) (*Controller, error) {
	c := &Controller{manager: m, options: o}
	c.setUnready(errors.New("has not begun"))
	return c, m.Add(c)
}

// NeedLeaderElection says that the wait for kinds, and the filling of the caches, does not
// wait for leadership.
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
	reconciler := NewReconciler(Config{
		Client: c.manager.GetClient(), Live: c.manager.GetAPIReader(), Events: recorder,
		Cluster: virt.Cached(c.manager.GetAPIReader(), estimatePeriod),
		Options: c.options.Quota, Metrics: c.options.Metrics, Logger: c.options.Logger,
	})
	err = c.add(Name, reconciler, c.sources()...)
	if err == nil && c.options.Halt {
		vmis := source.Kind[client.Object](c.manager.GetCache(), vmiMetadata(), &handler.EnqueueRequestForObject{})
		err = c.add(Name+"-halt", NewHalter(reconciler), vmis)
	}
	if err != nil {
		return fmt.Errorf("starting the quota controller: %w", err)
	}
	return c.awaitCaches(ctx)
}

// awaitKinds says that the kinds are there, or that ctx has ended before.
func (c *Controller) awaitKinds(ctx context.Context) bool {
	there := func(context.Context) (bool, error) { return c.kindsThere(), nil }
	return wait.PollUntilContextCancel(ctx, kindsPeriod, true, there) == nil
}

// awaitCaches returns when the caches are filled, or the controller has to end.
func (c *Controller) awaitCaches(ctx context.Context) error {
	for _, w := range watches() {
		c.setUnready(fmt.Errorf("the cache of a %T is not filled", w.object))
		if _, err := c.manager.GetCache().GetInformer(ctx, w.object); err != nil && ctx.Err() == nil {
			return fmt.Errorf("filling the cache of a %T: %w", w.object, err)
		}
	}
	c.setUnready(ctx.Err())
	return nil
}

// Ready says why the controller cannot work yet, or nil. It is a check for a probe.
func (c *Controller) Ready(*http.Request) error { return *c.unready.Load() }

func (c *Controller) setUnready(err error) { c.unready.Store(&err) }

// kindsThere says whether the API server knows all kinds, and tells once what is missing.
func (c *Controller) kindsThere() bool {
	missing := missingKinds(c.manager.GetRESTMapper(), c.manager.GetScheme())
	if len(missing) == 0 {
		return true
	}
	now := fmt.Errorf("the API server does not serve %s: are KubeVirt's and Mooring's CRDs installed?", strings.Join(missing, ", "))
	if c.Ready(nil).Error() != now.Error() {
		c.options.Logger.Error("waiting for what is not there", "error", now)
		c.setUnready(now)
	}
	return false
}

// missingKinds are the kinds that an API server does not know, or why that is not known.
func missingKinds(served meta.RESTMapper, scheme *runtime.Scheme) []string {
	var missing []string
	for _, w := range watches() {
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

// add adds a controller to the manager, with its workers.
func (c *Controller) add(name string, by reconcile.Reconciler, from ...source.Source) error {
	options := controller.Options{
		Reconciler:              by,
		MaxConcurrentReconciles: c.options.Workers,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](minFailureDelay, maxFailureDelay),
		EnableWarmup:            new(true), // so that who leads next has its caches filled
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
