// Package actor replaces the node programs of a cluster. The scheduler binds pods to fake Nodes.
// kubelet reports pods as running and removes deleted ones. virt-handler reports VMIs as
// running and takes a migration from PreparingTarget to its end. The actor starts no container.
//
// A test controls a migration or a pod by annotations. The actor keeps all state in the API server,
// so it can stop and start at any time.
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

// The annotations by which a test controls the actor.
const (
	// Until, on a migration, is the last phase set by the actor: PreparingTarget, TargetReady or
	// Running. Without it, the migration proceeds to its end.
	Until = "actor.test/until"
	// Fail, on a migration, is the reason for its failure. It fails as soon as virt-controller
	// hands the target to virt-handler.
	Fail = "actor.test/fail"
	// Keep, on a pod, keeps its launcher running after the end of its migration and after the pod's
	// deletion.
	Keep = "actor.test/keep"
)

// nodeNameKey is the API server's key for the node in the token of a pod's service account.
const nodeNameKey = "authentication.kubernetes.io/node-name"

// workers is the number of objects of a kind reconciled at once.
const workers = 4

// Scheme returns a scheme with the objects of the actor and its users.
func Scheme() (*runtime.Scheme, error) {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, virtv1.AddToScheme} {
		if err := add(s); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Options of Run.
type Options struct {
	// Nodes are the names of the Nodes, made by MakeNodes.
	Nodes []string
	// Alone: the cluster has no real scheduler and no real kubelet. The actor binds all pods, and
	// is kubelet on Nodes that a test makes, too. Otherwise it ignores other Nodes.
	Alone bool
	Log   *slog.Logger // for errors
}

// Run acts on the Nodes until ctx ends. admin has all rights.
func Run(ctx context.Context, admin *rest.Config, o Options) error {
	s, err := Scheme()
	if err != nil {
		return err
	}
	mgr, err := manager.New(admin, manager.Options{
		Scheme:  s,
		Logger:  logr.FromSlogHandler(o.Log.Handler()),
		Metrics: server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true),
			MaxConcurrentReconciles: workers},
	})
	if err != nil {
		return err
	}
	accounts := map[string]client.Client{}
	for _, node := range o.Nodes {
		if accounts[node], err = client.New(asVirtHandler(admin, node),
			client.Options{Scheme: s}); err != nil {
			return err
		}
	}
	if err := setUp(mgr, accounts, o.Alone); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// asVirtHandler returns a configuration with the rights of a node's virt-handler. virt-api ignores
// changes of a VMI's status by other accounts, and from 1.8 on by virt-handlers of other nodes.
func asVirtHandler(admin *rest.Config, node string) *rest.Config {
	c := rest.CopyConfig(admin)
	c.Impersonate = rest.ImpersonationConfig{
		UserName: fmt.Sprintf("system:serviceaccount:%s:%s", kubevirt.Namespace,
			kubevirt.HandlerAccount),
		Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + kubevirt.Namespace,
			"system:authenticated"},
		Extra: map[string][]string{nodeNameKey: {node}},
	}
	return c
}

func setUp(mgr manager.Manager, accounts map[string]client.Client, alone bool) error {
	api := mgr.GetClient()
	pods := map[string]reconcile.Reconciler{"kubelet": &kubelet{api: api, accounts: accounts,
		everywhere: alone}}
	if alone {
		pods["scheduler"] = &scheduler{api: api}
	}
	for name, r := range pods {
		if err := ctrl.NewControllerManagedBy(mgr).Named(name).For(&corev1.Pod{}).Complete(
			r); err != nil {
			return err
		}
	}
	return ctrl.NewControllerManagedBy(mgr).Named("virt-handler").
		For(&virtv1.VirtualMachineInstance{}).
		Watches(&virtv1.VirtualMachineInstanceMigration{},
			handler.EnqueueRequestsFromMapFunc(vmiOfMigration)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(vmiOfPod)).
		Complete(&virtHandler{api: api, accounts: accounts})
}
