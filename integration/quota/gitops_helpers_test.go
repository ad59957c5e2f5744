package quota

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
)

// manifest is the manifest of a quota.
type manifest struct {
	namespace string
	hard      corev1.ResourceList
	applies   atomic.Int32 // without dry runs
}

// tool is a deployment tool.
type tool struct {
	manager string // field manager
	forces  bool   // takes fields of other managers
	quiet   bool   // does not apply while the controller owns the limits
	stale   bool   // can apply limits of the past, which its next sync mends
	sync    func(context.Context, *kubevirttest.Cluster, *manifest) error
}

// forced makes an apply take fields of other managers.
const forced = true

// apply applies the manifest on the server's side.
func (m *manifest) apply(
	ctx context.Context, c *kubevirttest.Cluster, manager string, force bool,
) error {
	m.applies.Add(1)
	_, err := m.send(ctx, c, manager, force)
	return err
}

func (m *manifest) send(
	ctx context.Context, c *kubevirttest.Cluster, manager string, force bool,
	options ...client.ApplyOption,
) (*corev1.ResourceQuota, error) {
	hard := map[string]any{}
	for name, q := range m.hard {
		hard[string(name)] = q.String()
	}
	o := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"hard": hard}}}
	o.SetAPIVersion("v1")
	o.SetKind("ResourceQuota")
	o.SetNamespace(m.namespace)
	o.SetName(kubevirttest.QuotaName)
	options = append(options, client.FieldOwner(manager))
	if force {
		options = append(options, client.ForceOwnership)
	}
	if err := c.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(o),
		options...); err != nil {
		return nil, err
	}
	q := &corev1.ResourceQuota{}
	return q, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, q)
}

// live returns the quota, or nil if it does not exist.
func (m *manifest) live(
	ctx context.Context, c *kubevirttest.Cluster,
) (*corev1.ResourceQuota, error) {
	q := &corev1.ResourceQuota{}
	err := c.Client.Get(ctx, client.ObjectKey{Namespace: m.namespace,
		Name: kubevirttest.QuotaName}, q)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return q, err
}

// argoCD is Argo CD with the sync option ServerSideApply=true and self-healing.
type argoCD struct {
	// ignores is for ignoreDifferences with managedFieldsManagers: mooring-controller.
	ignores bool
	// respects is for the sync option RespectIgnoreDifferences=true.
	respects bool
}

func (a argoCD) tool() tool {
	return tool{manager: "argocd-controller", forces: true, quiet: a.ignores && !a.respects,
		stale: a.respects, sync: a.sync}
}

// sync applies the manifest. With ignored differences Argo CD heals only other ones. A sync with
// respect for them applies the live limits.
func (a argoCD) sync(ctx context.Context, c *kubevirttest.Cluster, m *manifest) error {
	live, err := m.live(ctx, c)
	if err != nil {
		return err
	}
	if live != nil && a.respects {
		return a.target(live, m).apply(ctx, c, a.tool().manager, forced)
	}
	if live != nil && a.ignores {
		predicted, err := m.send(ctx, c, a.tool().manager, forced, client.DryRunAll)
		if err != nil {
			return err
		}
		for name := range ignored(live, predicted.Spec.Hard) {
			predicted.Spec.Hard[name] = live.Spec.Hard[name]
		}
		if equality.Semantic.DeepEqual(predicted.Spec, live.Spec) {
			return nil
		}
	}
	return m.apply(ctx, c, a.tool().manager, forced)
}

// target returns the manifest with the live values of ignored differences.
func (argoCD) target(live *corev1.ResourceQuota, m *manifest) *manifest {
	out := &manifest{namespace: m.namespace, hard: m.hard.DeepCopy()}
	for name := range ignored(live, m.hard) {
		out.hard[name] = live.Spec.Hard[name]
	}
	return out
}

// ignored returns the limits of mooring-controller with another value in hard.
func ignored(live *corev1.ResourceQuota, hard corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for _, name := range ownersOf(live)["mooring-controller"] {
		is, want := live.Spec.Hard[name], hard[name]
		if _, both := hard[name]; both && is.Cmp(want) != 0 {
			out[name] = is
		}
	}
	return out
}

// flux is Flux's kustomize-controller. It compares a dry run with the live object.
func flux() tool {
	const manager = "kustomize-controller"
	return tool{manager: manager, forces: true,
		sync: func(ctx context.Context, c *kubevirttest.Cluster, m *manifest) error {
			live, err := m.live(ctx, c)
			if err != nil {
				return err
			}
			predicted, err := m.send(ctx, c, manager, forced, client.DryRunAll)
			if err != nil {
				return err
			}
			if live != nil && equality.Semantic.DeepEqual(predicted.Spec, live.Spec) {
				return nil
			}
			return m.apply(ctx, c, manager, forced)
		}}
}

// kubectl is `kubectl apply --server-side`.
func kubectl() tool {
	return tool{manager: "kubectl",
		sync: func(ctx context.Context, c *kubevirttest.Cluster, m *manifest) error {
			return m.apply(ctx, c, "kubectl", !forced)
		}}
}

// ownersOf returns the limits of each field manager.
func ownersOf(q *corev1.ResourceQuota) map[string][]corev1.ResourceName {
	out := map[string][]corev1.ResourceName{}
	for _, e := range q.ManagedFields {
		var fields fieldpath.Set
		if e.FieldsV1 == nil || fields.FromJSON(e.FieldsV1.GetRawReader()) != nil {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(q.Spec.Hard)) {
			if fields.Has(fieldpath.MakePathOrDie("spec", "hard", string(name))) {
				out[e.Manager] = append(out[e.Manager], name)
			}
		}
	}
	return out
}
