package guard

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/read"
)

// read reads the inputs of accounts: reservations before pods, and pods before the quotas that
// charge them.
func (c Config) read(ctx context.Context, namespace string) (quota.Snapshot, error) {
	s := quota.Snapshot{Now: c.Now(), Namespace: &corev1.Namespace{}}
	if err := c.Live.Get(ctx, client.ObjectKey{Name: namespace}, s.Namespace); err != nil {
		return s, fmt.Errorf("reading namespace %q: %w", namespace, err)
	}
	ledger, pods, quotas := &v1alpha1.MigrationReservationList{}, &corev1.PodList{},
		&corev1.ResourceQuotaList{}
	for _, err := range []error{
		c.list(ctx, namespace, ledger),
		c.list(ctx, namespace, pods, client.MatchingLabelsSelector{Selector: quota.PodsOfVMs()}),
		c.list(ctx, namespace, quotas),
	} {
		if err != nil {
			return s, err
		}
	}
	if len(ledger.Items) > 0 {
		if cluster, err := c.Cluster(ctx); err == nil { // else: room for all is reserved
			s.Parallel = quota.ParallelOf(cluster.Configuration)
		}
	}
	s.Reservations, s.Pods, s.Quotas = read.Pointers(ledger.Items), read.Pointers(pods.Items),
		read.Pointers(quotas.Items)
	return s, nil
}

func (c Config) list(
	ctx context.Context, namespace string, to client.ObjectList, options ...client.ListOption,
) error {
	return read.List(ctx, c.Live, to, append(options, client.InNamespace(namespace))...)
}

// open reports whether an administrator lets pods pass, see [quota.OpenAnnotation].
func (c Config) open(s quota.Snapshot) bool {
	until, err := quota.OpenUntil(s.Namespace, c.Now())
	return err == nil && !until.IsZero()
}

func terminating(ns *corev1.Namespace) bool { return ns.DeletionTimestamp != nil }

// refuseLowered refuses a base lowered below the use. It is for a quota without reservations that
// block edits.
func refuseLowered(a quota.Account, before, after corev1.ResourceList) error {
	low := tooLow(a.UsedWithinBase(), before, after)
	if len(low) == 0 {
		return nil
	}
	return refuse("the limits of ResourceQuota %s cannot be lowered so far: %s. Stop VMs or "+
		"other pods first",
		a.Quota.Name, strings.Join(low, "; "))
}

// tooLow lists lowered limits below the use of pods.
func tooLow(used, before, after corev1.ResourceList) []string {
	var low []string
	for _, name := range sorted(after) {
		was, had := before[name]
		limit, in := after[name], used[name]
		if had && quota.ChargedForPods(name) && limit.Cmp(was) < 0 && limit.Cmp(in) < 0 {
			low = append(low, fmt.Sprintf("%s: %s is less than the %s in use",
				name, quota.AtMost(name, limit), quota.AtLeast(name, in)))
		}
	}
	return low
}
