package grants

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/hack/kube"
)

const (
	system    = "mooring-system"
	quotaName = "quota"
	roomName  = "room" // quotas that no round changes
	// spacePrefix starts the names of namespaces.
	spacePrefix = "vms-"

	// writers is the number of concurrent writers.
	writers = 32
)

// memory is the charge of a launcher.
func memory() resource.Quantity { return resource.MustParse("1Gi") }

// install applies the controller's requirements, without the controller, webhooks and policies.
func (b *testBed) install(ctx context.Context) error {
	for _, file := range []string{b.Manifest, b.Role} {
		objects, err := manifests(file, "Namespace", "CustomResourceDefinition", "ServiceAccount",
			"ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Secret")
		if err != nil {
			return err
		}
		for _, o := range objects {
			if err := b.apply(ctx, o); err != nil {
				return err
			}
		}
	}
	return nil
}

// manifests returns the objects of these kinds in a file.
func manifests(file string, kinds ...string) ([]*unstructured.Unstructured, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	objects, err := kube.Decode(bytes.NewReader(text))
	return slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool {
		return !slices.Contains(kinds, o.GetKind())
	}), err
}

func (b *testBed) apply(ctx context.Context, o *unstructured.Unstructured) error {
	manifest, err := json.Marshal(o)
	if err != nil {
		return err
	}
	_, err = b.plane.Apply(ctx, bytes.NewReader(manifest))
	return err
}

func space(i int) string { return spacePrefix + strconv.Itoa(i) }

func vm(i int) string { return fmt.Sprintf("vm-%d", i) }

// fill makes namespaces with quotas filled by launchers.
func (b *testBed) fill(ctx context.Context) error {
	if err := each(ctx, b.Namespaces, func(ctx context.Context, i int) error {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: space(i)}}
		if err := b.api.Create(ctx, ns); err != nil {
			return err
		}
		if err := b.awaitServiceAccount(ctx, ns.Name); err != nil {
			return err
		}
		return b.api.Create(ctx, &corev1.ResourceQuota{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: quotaName},
			Spec:       corev1.ResourceQuotaSpec{Hard: hard(b.VMs)},
		})
	}); err != nil {
		return err
	}
	if err := b.awaitQuotas(ctx, quotaName, computed); err != nil {
		return err
	}
	if err := each(ctx, b.Namespaces*b.VMs, func(ctx context.Context, i int) error {
		return b.launch(ctx, space(i%b.Namespaces), vm(i/b.Namespaces))
	}); err != nil {
		return err
	}
	return b.awaitQuotas(ctx, quotaName, func(q *corev1.ResourceQuota) bool {
		used := q.Status.Used[corev1.ResourcePods]
		return used.Value() == int64(b.VMs)
	})
}

// awaitServiceAccount waits for the service account required by pods.
func (b *testBed) awaitServiceAccount(ctx context.Context, namespace string) error {
	return wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) {
			err := b.api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "default"},
				&corev1.ServiceAccount{})
			return err == nil, client.IgnoreNotFound(err)
		})
}

// hard returns a quota for this number of launchers.
func hard(launchers int) corev1.ResourceList {
	one := memory()
	return corev1.ResourceList{
		corev1.ResourcePods: *resource.NewQuantity(int64(launchers), resource.DecimalSI),
		corev1.ResourceRequestsMemory: *resource.NewQuantity(one.Value()*int64(launchers),
			resource.BinarySI),
	}
}

// launch makes a VMI and its launcher pod.
func (b *testBed) launch(ctx context.Context, namespace, name string) error {
	guest := memory()
	vmi := &kubevirtv1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
		Name: name}}
	vmi.Spec.Domain.Memory = &kubevirtv1.Memory{Guest: &guest}
	if err := b.api.Create(ctx, vmi); err != nil {
		return err
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
		Name: "virt-launcher-" + name}}
	pod.Labels = map[string]string{kubevirtv1.AppLabel: "virt-launcher",
		kubevirtv1.CreatedByLabel: string(vmi.UID)}
	pod.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(vmi, kubevirtv1.VirtualMachineInstanceGroupVersionKind)}
	pod.Spec = podSpec()
	return b.api.Create(ctx, pod)
}

// podSpec returns the spec of a launcher pod.
func podSpec() corev1.PodSpec {
	return corev1.PodSpec{Containers: []corev1.Container{{
		Name: "compute", Image: "registry.test/launcher",
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceMemory: memory()}},
	}}}
}

// awaitQuotas waits until accept approves all quotas with a name.
func (b *testBed) awaitQuotas(
	ctx context.Context, name string, accept func(*corev1.ResourceQuota) bool,
) error {
	return wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, 5*time.Minute, true,
		func(ctx context.Context) (bool, error) {
			all := &corev1.ResourceQuotaList{}
			if err := b.api.List(ctx, all); err != nil {
				return false, err
			}
			for i := range all.Items {
				if q := &all.Items[i]; q.Name == name && !accept(q) {
					return false, nil
				}
			}
			return true, nil
		})
}

// computed reports whether kube-controller-manager has computed the use.
func computed(q *corev1.ResourceQuota) bool { return len(q.Status.Used) == len(q.Spec.Hard) }

// each calls do n times, several at once.
func each(ctx context.Context, n int, do func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := range n {
		group.Go(func() error { return do(ctx, i) })
	}
	return group.Wait()
}
