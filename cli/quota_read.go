package cli

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/read"
)

// quotaReader reads the inputs of quota accounts for a namespace.
type quotaReader struct {
	client    kubernetes.Interface
	namespace string

	snapshot quota.Snapshot
	known    bool // migrations were read
	kubevirt *kubevirtv1.KubeVirt
	missing  string   // reason why kubevirt is nil
	notes    []string // other unread parts, with reasons
}

// read reads pods first, because a quota read before a pod would show too much free room. It fails
// if the figures would be wrong.
func (r *quotaReader) read(ctx context.Context) error {
	for _, read := range []func(context.Context) error{
		r.readPods, r.readReservations, r.readMigrations, r.readQuotas, r.readNamespace,
	} {
		if err := read(ctx); err != nil {
			return err
		}
	}
	r.readKubeVirt(ctx)
	return nil
}

func (r *quotaReader) readPods(ctx context.Context) error {
	list, err := r.client.CoreV1().Pods(r.namespace).List(ctx,
		metav1.ListOptions{LabelSelector: quota.PodsOfVMs().String()})
	if err != nil {
		return r.failed(err, "list", "pods")
	}
	r.snapshot.Pods = read.Pointers(list.Items)
	return nil
}

func (r *quotaReader) readReservations(ctx context.Context) error {
	var list v1alpha1.MigrationReservationList
	err := r.get(ctx, &list, v1alpha1.Group, v1alpha1.Version, "namespaces", r.namespace,
		"migrationreservations")
	if apierrors.IsNotFound(err) {
		r.notes = append(r.notes, "migrationreservations.mooring.dev is not installed in the "+
			"cluster: there are no reservations")
		return nil
	}
	r.snapshot.Reservations = read.Pointers(list.Items)
	return r.failed(err, "list", "migrationreservations")
}

func (r *quotaReader) readMigrations(ctx context.Context) error {
	var list kubevirtv1.VirtualMachineInstanceMigrationList
	err := r.get(ctx, &list, kubevirtv1.GroupVersion.Group, "v1", "namespaces", r.namespace,
		"virtualmachineinstancemigrations")
	switch {
	case apierrors.IsNotFound(err):
		return nil // without KubeVirt, which the output shows
	case apierrors.IsForbidden(err):
		err = clusterError(err, "list", "virtualmachineinstancemigrations",
			"showing only migrations with a reservation")
		r.notes = append(r.notes, err.Error())
		return nil
	}
	r.snapshot.Migrations, r.known = read.Pointers(list.Items), err == nil
	return r.failed(err, "list", "virtualmachineinstancemigrations")
}

func (r *quotaReader) readQuotas(ctx context.Context) error {
	list, err := r.client.CoreV1().ResourceQuotas(r.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return r.failed(err, "list", "resourcequotas")
	}
	r.snapshot.Quotas = read.Pointers(list.Items)
	return nil
}

func (r *quotaReader) readNamespace(ctx context.Context) (err error) {
	r.snapshot.Namespace, err = r.client.CoreV1().Namespaces().Get(ctx, r.namespace,
		metav1.GetOptions{})
	return r.failed(err, "get", "namespaces")
}

// readKubeVirt records a failure instead of returning it, because the quotas do not depend on it.
// KubeVirt allows only one such object.
func (r *quotaReader) readKubeVirt(ctx context.Context) {
	var list kubevirtv1.KubeVirtList
	err := r.get(ctx, &list, kubevirtv1.GroupVersion.Group, "v1", "kubevirts")
	switch {
	case apierrors.IsNotFound(err), err == nil && len(list.Items) == 0:
		r.missing = "KubeVirt is not installed in the cluster"
	case err != nil:
		r.missing = clusterError(err, "list", "kubevirts", "not known").Error()
	default:
		r.kubevirt = &list.Items[0]
		r.snapshot.Parallel = quota.ParallelOf(&r.kubevirt.Spec.Configuration)
	}
}

func (r *quotaReader) get(ctx context.Context, into any, path ...string) error {
	return getJSON(ctx, r.client, into, path...)
}

// getJSON reads a custom resource as JSON.
func getJSON(ctx context.Context, client kubernetes.Interface, into any, path ...string) error {
	request := client.CoreV1().RESTClient().Get().AbsPath(append([]string{"/apis"}, path...)...)
	result := request.SetHeader("Accept", "application/json").Do(ctx)
	if err := result.Error(); err != nil {
		return err
	}
	body, err := result.Raw()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("decode a %T: %w", into, err)
	}
	return nil
}

func (r *quotaReader) failed(err error, verb, resource string) error {
	return clusterError(err, verb, resource, fmt.Sprintf("quota status of namespace %s",
		r.namespace))
}
