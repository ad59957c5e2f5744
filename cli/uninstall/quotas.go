package uninstall

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/quota"
)

// checkQuotas returns an error for each quota that cannot be restored. It changes no quota.
func (c *Cluster) checkQuotas(ctx context.Context) error {
	return c.eachQuota(ctx, func(q *corev1.ResourceQuota, ns *corev1.Namespace) error {
		_, err := c.next(q, ns)
		return err
	})
}

// restoreQuotas sets raised quotas back to their base. It leaves a quota with an unreadable base
// unchanged and returns an error.
func (c *Cluster) restoreQuotas(ctx context.Context) error {
	return c.eachQuota(ctx, func(q *corev1.ResourceQuota, ns *corev1.Namespace) error {
		return c.restoreQuota(ctx, q, ns)
	})
}

// eachQuota calls do for each quota with the controller's annotations and returns all errors.
func (c *Cluster) eachQuota(
	ctx context.Context, do func(*corev1.ResourceQuota, *corev1.Namespace) error,
) error {
	var quotas corev1.ResourceQuotaList
	if err := c.Client.List(ctx, &quotas); err != nil {
		return fmt.Errorf("list ResourceQuotas: %w", err)
	}
	namespaces, err := c.namespaces(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, q := range quotas.Items {
		// without a namespace the quota is gone too
		if ns := namespaces[q.Namespace]; ns != nil && c.annotated(&q) {
			errs = append(errs, do(&q, ns))
		}
	}
	return errors.Join(errs...)
}

func (c *Cluster) namespaces(ctx context.Context) (map[string]*corev1.Namespace, error) {
	var list corev1.NamespaceList
	if err := c.Client.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	all := make(map[string]*corev1.Namespace, len(list.Items))
	for i := range list.Items {
		all[list.Items[i].Name] = &list.Items[i]
	}
	return all, nil
}

func (c *Cluster) annotated(q *corev1.ResourceQuota) bool {
	return slices.ContainsFunc(c.Quota.QuotaAnnotations(), func(key string) bool {
		return q.Annotations[key] != ""
	})
}

func (c *Cluster) restoreQuota(
	ctx context.Context, q *corev1.ResourceQuota, ns *corev1.Namespace,
) error {
	next, err := c.next(q, ns)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("restore ResourceQuota %s/%s%s", q.Namespace, q.Name,
		difference(q.Spec.Hard, next.Spec.Hard))
	return c.Report.do(what, func() error { return c.writeQuota(ctx, q, ns) })
}

// writeQuota writes a quota until it has no annotation of the controller. On a conflict, for
// example by a status update, it reads the quota and computes the write again.
func (c *Cluster) writeQuota(
	ctx context.Context, q *corev1.ResourceQuota, ns *corev1.Namespace,
) error {
	for n := 0; c.annotated(q); n++ {
		if n == maxWrites {
			return fmt.Errorf("another client changed spec.hard after each of %d writes: stop it, "+
				"and repeat the command", n)
		}
		err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
			next, err := c.next(q, ns)
			if err != nil {
				return err
			}
			conflict := c.Client.Update(ctx, next, client.FieldOwner(quota.FieldManager))
			if conflict == nil {
				q = next
				return nil
			}
			if err := c.Client.Get(ctx, client.ObjectKeyFromObject(q), q); err != nil {
				return err
			}
			return conflict
		})
		if err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	return nil
}

// maxWrites bounds the writes of a quota. Without another client there are two.
const maxWrites = 10

// next returns the quota after the next write, see [quota.Restore].
func (c *Cluster) next(
	q *corev1.ResourceQuota, ns *corev1.Namespace,
) (*corev1.ResourceQuota, error) {
	w, err := quota.Restore(q, ns, c.Quota)
	if err != nil {
		return nil, fmt.Errorf("read the base of ResourceQuota %s/%s: %w: set spec.hard to the "+
			"right limits, and remove the annotations %s",
			q.Namespace, q.Name, err, strings.Join(c.Quota.QuotaAnnotations(), ", "))
	}
	return w.Apply(q), nil
}

// difference returns the changed limits, such as ": limits.cpu 16 -> 12", empty without a change.
func difference(was, is corev1.ResourceList) string {
	var changes []string
	for _, name := range slices.Sorted(maps.Keys(was)) {
		before, after := was[name], is[name]
		if before.Cmp(after) != 0 {
			changes = append(changes, fmt.Sprintf("%s %s -> %s", name, before.String(),
				after.String()))
		}
	}
	if len(changes) == 0 {
		return ""
	}
	return ": " + strings.Join(changes, ", ")
}

// clearNamespaces removes the controller's computed annotations and its label.
func (c *Cluster) clearNamespaces(ctx context.Context) error {
	namespaces, err := c.namespaces(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(namespaces)) {
		errs = append(errs, c.clearNamespace(ctx, namespaces[name]))
	}
	return errors.Join(errs...)
}

func (c *Cluster) clearNamespace(ctx context.Context, ns *corev1.Namespace) error {
	was := ns.DeepCopy()
	for _, key := range []string{quota.VMAvailableName, quota.MaintenanceAvailableName} {
		delete(ns.Annotations, c.Quota.Prefix+key)
	}
	delete(ns.Labels, quota.ReservedLabel)
	if len(was.Annotations) == len(ns.Annotations) && len(was.Labels) == len(ns.Labels) {
		return nil
	}
	return c.Report.do("clear the computed annotations and label of namespace "+ns.Name, func() error {
		return client.IgnoreNotFound(c.Client.Patch(ctx, ns, client.MergeFrom(was)))
	})
}
