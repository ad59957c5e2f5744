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

// look is where the parts of a snapshot are read.
type look struct {
	namespace client.Reader
	written   client.Reader // what the controller writes: reservations, quotas
	world     client.Reader // pods, migrations, VMIs
	name      string        // in the metrics
}

// The names of looks.
const (
	lookCache  = "cache"
	lookLedger = "ledger"
	lookLive   = "live"
)

// glance costs no call.
func (r *Reconciler) glance() look { return look{r.Client, r.Client, r.Client, lookCache} }

// reread is for when the caches do not show what has been written.
func (r *Reconciler) reread() look { return look{r.Live, r.Live, r.Client, lookLedger} }

// lastLook is for before something is released.
func (r *Reconciler) lastLook() look { return look{r.Client, r.Live, r.Live, lookLive} }

// snapshot reads a namespace, from caches where these show all that was written. Else it
// says how long to wait until they do; they are news, which come by themselves.
func (r *Reconciler) snapshot(ctx context.Context, ns *namespace) (quota.Snapshot, time.Duration, error) {
	from := r.glance()
	if ns.distrust {
		from = r.reread()
	}
	s, err := r.read(ctx, ns.name, from)
	if err != nil || ns.distrust {
		if err == nil {
			ns.forgive()
		}
		return s, 0, err
	}
	if ns.look(s) {
		return s, 0, nil
	}
	if wait := unseenTimeout - r.Now().Sub(ns.since); wait > 0 {
		return s, wait, nil
	}
	ns.distrust = true
	return r.snapshot(ctx, ns)
}

// read reads a namespace, in the order that [quota.Snapshot] wants.
func (r *Reconciler) read(ctx context.Context, name string, from look) (quota.Snapshot, error) {
	r.Metrics.looked(from.name)
	s := quota.Snapshot{Now: r.Now(), Live: from.name == lookLive, Namespace: &corev1.Namespace{}}
	if err := from.namespace.Get(ctx, client.ObjectKey{Name: name}, s.Namespace); err != nil {
		return s, fmt.Errorf("reading namespace %q: %w", name, err)
	}
	in := client.InNamespace(name)
	ledger, quotas := &v1alpha1.MigrationReservationList{}, &corev1.ResourceQuotaList{}
	if err := read.List(ctx, from.written, ledger, in); err != nil {
		return s, err
	}
	if from.name == lookCache && len(ledger.Items) == 0 {
		// Most namespaces have no quota, and then need no look at their pods.
		if err := read.List(ctx, from.written, quotas, in); err != nil || len(quotas.Items) == 0 {
			return s, err
		}
	}
	if err := readWorld(ctx, from.world, &s, in); err != nil {
		return s, err
	}
	if err := read.List(ctx, from.written, quotas, in); err != nil {
		return s, err
	}
	s.Reservations, s.Quotas = read.Pointers(ledger.Items), read.Pointers(quotas.Items)
	return s, nil
}

func readWorld(ctx context.Context, from client.Reader, s *quota.Snapshot, in client.InNamespace) error {
	migrations, vmis, pods := &kubevirtv1.VirtualMachineInstanceMigrationList{}, vmiMetadataList(), &corev1.PodList{}
	if err := read.List(ctx, from, migrations, in); err != nil {
		return err
	}
	if err := read.List(ctx, from, vmis, in); err != nil {
		return err
	}
	if err := read.List(ctx, from, pods, in, client.MatchingLabelsSelector{Selector: quota.PodsOfVMs()}); err != nil {
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
