package resizevm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/estimate"
	"github.com/mooring-vm/mooring/quota/read"
	"github.com/mooring-vm/mooring/quota/virt"
)

// The time between two comparisons, beside those after events.
const (
	settledPeriod = 5 * time.Minute
	retryPeriod   = 15 * time.Second
)

// Config configures a [Reconciler].
type Config struct {
	Client client.Client // reads from caches, and writes
	Live   client.Reader // reads from the API server

	// Snapshot reads the quotas of a namespace and their use from the API server.
	Snapshot func(ctx context.Context, namespace string) (quota.Snapshot, error)

	Cluster func(context.Context) (virt.Cluster, error)
	Events  events.EventRecorder
	Options quota.Options
	Logger  *slog.Logger

	Now func() time.Time // nil: time.Now
}

// Reconciler gives VMs their desired size. The request names a VirtualMachine. Different VMs may be
// reconciled concurrently.
type Reconciler struct {
	Config

	mu       sync.Mutex
	observed map[types.NamespacedName]string    // status reported in mode observe
	failing  map[types.NamespacedName]time.Time // see failsSince
}

// NewReconciler returns a reconciler.
func NewReconciler(c Config) *Reconciler {
	c.Options = c.Options.WithDefaults()
	if c.Now == nil {
		c.Now = time.Now
	}
	return &Reconciler{Config: c, observed: map[types.NamespacedName]string{},
		failing: map[types.NamespacedName]time.Time{}}
}

// Reconcile implements [reconcile.Reconciler]. A VM without a size costs only reads from the cache.
// After an error controller-runtime retries with back-off.
func (r *Reconciler) Reconcile(
	ctx context.Context, request reconcile.Request,
) (reconcile.Result, error) {
	cached := vmMetadata()
	if err := r.Client.Get(ctx, request.NamespacedName, cached); err != nil {
		r.forget(request.NamespacedName)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	sized, err := r.isSized(ctx, cached)
	if err != nil {
		return reconcile.Result{}, err
	}
	if !sized || cached.DeletionTimestamp != nil {
		r.forget(request.NamespacedName)
		return reconcile.Result{}, nil
	}
	d, err := r.compare(ctx, request.NamespacedName)
	if err != nil && d.Status == nil {
		return reconcile.Result{}, errors.Join(err, r.reportFailure(ctx, cached, err))
	}
	r.succeeded(request.NamespacedName)
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: period(d)}, nil
}

// compare reads a VM, applies the next step, and reports the status. Without a status in the
// decision, its error is one of requests to the API server.
func (r *Reconciler) compare(ctx context.Context, name types.NamespacedName) (Decision, error) {
	in, err := r.read(ctx, name)
	if err != nil || in.VM == nil {
		return Decision{}, err
	}
	if in.GiveWay, err = r.othersWait(ctx, in.VM); err != nil {
		return Decision{}, err
	}
	d, err := r.step(ctx, in)
	if err != nil && d.Status == nil {
		return d, err
	}
	return d, errors.Join(err, r.report(ctx, in.VM, d.Status))
}

func period(d Decision) time.Duration {
	if d.Status == nil {
		return 0
	}
	switch d.Status.Reason {
	case api.ResizeDone, api.ResizeInvalid, api.ResizeNotRunning, api.ResizeKept:
		return settledPeriod
	}
	return retryPeriod
}

// read reads a VM from the API server. Only the reports come from the cache. Without the VM, the
// input is empty.
func (r *Reconciler) read(ctx context.Context, name types.NamespacedName) (Input, error) {
	vm, vmi := &kubevirtv1.VirtualMachine{}, &kubevirtv1.VirtualMachineInstance{}
	err := r.Live.Get(ctx, name, vm)
	switch {
	case apierrors.IsNotFound(err):
		return Input{}, nil
	case err != nil:
		return Input{}, fmt.Errorf("reading VirtualMachine %s: %w", name, err)
	}
	in := Input{VM: vm, Reports: map[string]v1alpha1.ResizeReport{}}
	err = r.Live.Get(ctx, name, vmi)
	switch {
	case apierrors.IsNotFound(err), err == nil && !metav1.IsControlledBy(vmi, in.VM):
		return in, nil
	case err != nil:
		return in, fmt.Errorf("reading VirtualMachineInstance %s: %w", name, err)
	}
	in.VMI = vmi
	pods := &corev1.PodList{}
	if err := read.List(ctx, r.Live, pods, client.InNamespace(name.Namespace),
		client.MatchingLabels{kubevirtv1.CreatedByLabel: string(vmi.UID)}); err != nil {
		return in, err
	}
	in.Pods = read.Pointers(pods.Items)
	if err := errors.Join(r.readReports(ctx, in), r.readStaticCPUs(ctx, &in)); err != nil {
		return in, err
	}
	if err := r.readQuotas(ctx, &in); err != nil {
		in.Estimate = func(*kubevirtv1.VirtualMachineInstance) (estimate.Launcher, error) {
			return estimate.Launcher{}, err
		}
	}
	return in, nil
}

func (r *Reconciler) readReports(ctx context.Context, in Input) error {
	nodes := &v1alpha1.NodeStateList{}
	if err := read.List(ctx, r.Client, nodes); err != nil {
		return err
	}
	for i := range nodes.Items {
		for _, l := range nodes.Items[i].Status.Launchers {
			if l.Resize != nil && l.Pod.Namespace == in.VM.Namespace {
				in.Reports[l.Pod.UID] = *l.Resize
			}
		}
	}
	return nil
}

// errQuotaUnknown says that the quotas of the namespace are unreadable.
var errQuotaUnknown = errors.New("cannot read the quotas of the namespace")

// readQuotas reads the quotas, and all input of the estimate.
func (r *Reconciler) readQuotas(ctx context.Context, in *Input) error {
	s, err := r.Snapshot(ctx, in.VM.Namespace)
	if err != nil {
		return fmt.Errorf("%w: %w", errQuotaUnknown, err)
	}
	ranges := &corev1.LimitRangeList{}
	if err := read.List(ctx, r.Live, ranges, client.InNamespace(in.VM.Namespace)); err != nil {
		return fmt.Errorf("%w: %w", errQuotaUnknown, err)
	}
	cluster, err := r.Cluster(ctx)
	if err != nil {
		return err
	}
	s.Parallel = quota.ParallelOf(cluster.Configuration)
	in.Accounts, _ = quota.Accounts(s, r.Options)
	in.Estimate = func(vmi *kubevirtv1.VirtualMachineInstance) (estimate.Launcher, error) {
		return estimate.Estimate(estimate.Input{VMI: vmi, Namespace: s.Namespace, Quotas: s.Quotas,
			LimitRanges: read.Pointers(ranges.Items), Cluster: cluster})
	}
	return nil
}

func (r *Reconciler) forget(name types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.observed, name)
	delete(r.failing, name)
}
