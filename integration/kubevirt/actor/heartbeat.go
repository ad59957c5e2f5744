package actor

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// heartbeat is the period of kubelet's heartbeats.
const heartbeat = 10 * time.Second

// SendHeartbeats renews the Leases of Nodes until ctx ends. kube-controller-manager's controller of
// the node lifecycle, if it runs, deletes the pods of a Node without heartbeats.
func SendHeartbeats(ctx context.Context, api client.Client, nodes ...string) error {
	every := time.NewTicker(heartbeat)
	defer every.Stop()
	for {
		for _, name := range nodes {
			if err := renew(ctx, api, name); err != nil && ctx.Err() == nil {
				return fmt.Errorf("renewing the lease of node %q: %w", name, err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
		}
	}
}

func renew(ctx context.Context, api client.Client, node string) error {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: node,
		Namespace: corev1.NamespaceNodeLease}}
	err := api.Get(ctx, client.ObjectKeyFromObject(lease), lease)
	if client.IgnoreNotFound(err) != nil {
		return err
	}
	lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &node,
		LeaseDurationSeconds: new(int32(4 * heartbeat / time.Second)),
		RenewTime:            new(metav1.NowMicro())}
	if err != nil {
		return api.Create(ctx, lease)
	}
	return api.Update(ctx, lease)
}
