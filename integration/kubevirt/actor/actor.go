// Package actor stands in for what a control plane and virt-controller leave to
// the nodes, and for nothing else: the scheduler, which binds pods to two fake
// Nodes; kubelet, which says that pods run and takes away those that are deleted;
// and virt-handler, which says that a VMI runs and takes a migration from
// PreparingTarget to its end. No container is ever started.
//
// What a test wants of a migration or a pod it says by annotations of theirs, so
// that the actor knows nothing but what is in the API server and may be stopped
// and started at any time.
package actor

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	virtv1 "kubevirt.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/mooring-vm/mooring/hack/kubevirt"
)

// The annotations that tell the actor what a test wants.
const (
	// Until, on a migration, is the last phase that the actor takes it to:
	// PreparingTarget, TargetReady or Running. All the way without.
	Until = "actor.test/until"
	// Fail, on a migration, is the reason that it fails for as soon as the target
	// has been handed to virt-handler.
	Fail = "actor.test/fail"
	// Keep, on a pod, has its launcher run on: after the migration that it was the
	// source or the target of is over, and when it is deleted.
	Keep = "actor.test/keep"
)

// workers is how many objects of a kind are seen to at once.
const workers = 4

// Scheme knows the objects that the actor and those who use it deal with.
func Scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, virtv1.AddToScheme} {
		if err := add(s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Run acts until ctx ends, on the Nodes that MakeNodes has made. admin is for who may
// do everything; log hears of what goes wrong.
func Run(ctx context.Context, admin *rest.Config, log *slog.Logger) error {
	s, err := Scheme()
	if err != nil {
		return err
	}
	mgr, err := manager.New(admin, manager.Options{
		Scheme:     s,
		Logger:     logr.FromSlogHandler(log.Handler()),
		Metrics:    server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true), MaxConcurrentReconciles: workers},
	})
	if err != nil {
		return err
	}
	account, err := client.New(asVirtHandler(admin), client.Options{Scheme: s})
	if err != nil {
		return err
	}
	if err := setUp(mgr, account); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// asVirtHandler is with the rights of virt-handler: virt-api heeds what others say
// about a VMI's status not at all.
func asVirtHandler(admin *rest.Config) *rest.Config {
	c := rest.CopyConfig(admin)
	c.Impersonate = rest.ImpersonationConfig{
		UserName: fmt.Sprintf("system:serviceaccount:%s:%s", kubevirt.Namespace, kubevirt.HandlerAccount),
		Groups:   []string{"system:serviceaccounts", "system:serviceaccounts:" + kubevirt.Namespace, "system:authenticated"},
	}
	return c
}

func setUp(mgr manager.Manager, account client.Client) error {
	api := mgr.GetClient()
	pods := map[string]reconcile.Reconciler{"scheduler": &scheduler{api: api}, "kubelet": &kubelet{api: api}}
	for name, r := range pods {
		if err := ctrl.NewControllerManagedBy(mgr).Named(name).For(&corev1.Pod{}).Complete(r); err != nil {
			return err
		}
	}
	return ctrl.NewControllerManagedBy(mgr).Named("virt-handler").
		For(&virtv1.VirtualMachineInstance{}).
		Watches(&virtv1.VirtualMachineInstanceMigration{}, handler.EnqueueRequestsFromMapFunc(vmiOfMigration)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(vmiOfPod)).
		Complete(&virtHandler{api: api, account: account})
}
