package controller

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/read"
)

// readers are the sources of the parts of a snapshot.
type readers struct {
	namespace client.Reader // the Namespace object
	ledger    client.Reader // objects written by the controller: reservations, quotas
	cluster   client.Reader // pods, migrations, VMIs
	name      string        // in the metrics
}

// Names of readers.
const (
	readCache  = "cache"
	readLedger = "ledger"
	readLive   = "live"
)

// cacheReaders read only from caches.
func (r *Reconciler) cacheReaders() readers {
	return readers{r.Client, r.Client, r.Client, readCache}
}

// ledgerReaders read the controller's own objects from the API server, for caches that do not show
// the controller's writes.
func (r *Reconciler) ledgerReaders() readers {
	return readers{r.Live, r.Live, r.Client, readLedger}
}

// liveReaders read from the API server. The plan needs them to release a reservation.
func (r *Reconciler) liveReaders() readers { return readers{r.Client, r.Live, r.Live, readLive} }

// snapshot reads a namespace. A positive duration means that the caches do not show the
// controller's own writes yet: the caller discards the snapshot and retries after the event of the
// write, or after the duration. After unseenTimeout without the writes, snapshot reads reservations
// and quotas from the API server.
func (r *Reconciler) snapshot(
	ctx context.Context, ns *namespace,
) (quota.Snapshot, time.Duration, error) {
	from := r.cacheReaders()
	if ns.cacheStale {
		from = r.ledgerReaders()
	}
	s, err := r.read(ctx, ns.name, from)
	if err != nil || ns.cacheStale {
		if err == nil {
			ns.trustCache()
		}
		return s, 0, err
	}
	if ns.cacheCaughtUp(s) {
		return s, 0, nil
	}
	if wait := unseenTimeout - r.Now().Sub(ns.lastWrite); wait > 0 {
		return s, wait, nil
	}
	ns.cacheStale = true
	return r.snapshot(ctx, ns)
}

// read reads a namespace in the order that [quota.Snapshot] requires.
func (r *Reconciler) read(ctx context.Context, name string, from readers) (quota.Snapshot, error) {
	r.Metrics.countRead(from.name)
	s := quota.Snapshot{Now: r.Now(), Live: from.name == readLive, Namespace: &corev1.Namespace{}}
	if err := from.namespace.Get(ctx, client.ObjectKey{Name: name}, s.Namespace); err != nil {
		return s, fmt.Errorf("reading namespace %q: %w", name, err)
	}
	in := client.InNamespace(name)
	ledger, quotas := &v1alpha1.MigrationReservationList{}, &corev1.ResourceQuotaList{}
	if err := read.List(ctx, from.ledger, ledger, in); err != nil {
		return s, err
	}
	if from.name == readCache && len(ledger.Items) == 0 {
		// Most namespaces have no quota. The plan does not need the pods of these namespaces.
		if err := read.List(ctx, from.ledger, quotas, in); err != nil || len(quotas.Items) == 0 {
			return s, err
		}
	}
	if err := readCluster(ctx, from.cluster, &s, in); err != nil {
		return s, err
	}
	if err := read.List(ctx, from.ledger, quotas, in); err != nil {
		return s, err
	}
	s.Reservations, s.Quotas = read.Pointers(ledger.Items), read.Pointers(quotas.Items)
	return s, nil
}

func readCluster(
	ctx context.Context, from client.Reader, s *quota.Snapshot, in client.InNamespace,
) error {
	migrations, vmis, pods := &kubevirtv1.VirtualMachineInstanceMigrationList{}, vmiMetadataList(),
		&corev1.PodList{}
	if err := read.List(ctx, from, migrations, in); err != nil {
		return err
	}
	if err := read.List(ctx, from, vmis, in); err != nil {
		return err
	}
	if err := read.List(ctx, from, pods, in,
		client.MatchingLabelsSelector{Selector: quota.PodsOfVMs()}); err != nil {
		return err
	}
	s.Pods, s.Migrations = read.Pointers(pods.Items), read.Pointers(migrations.Items)
	for i := range vmis.Items {
		s.VMIs = append(s.VMIs, quota.VMI{Name: vmis.Items[i].Name, UID: vmis.Items[i].UID})
	}
	return nil
}

func vmiMetadata() *metav1.PartialObjectMetadata {
	o := &metav1.PartialObjectMetadata{}
	o.SetGroupVersionKind(kubevirtv1.VirtualMachineInstanceGroupVersionKind)
	return o
}

func vmiMetadataList() *metav1.PartialObjectMetadataList {
	gvk := kubevirtv1.VirtualMachineInstanceGroupVersionKind
	gvk.Kind += "List"
	o := &metav1.PartialObjectMetadataList{}
	o.SetGroupVersionKind(gvk)
	return o
}
