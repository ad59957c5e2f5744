package quota

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
)

// patience is the deadline of one wait. It is long because the machine may be busy, and measures no
// performance.
const patience = 3 * time.Minute

// eventually retries check until it returns nil. It fails t with the last error after the deadline.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true,
		func(context.Context) (bool, error) {
			last = check()
			return last == nil, nil
		})
	if err != nil {
		t.Fatalf("waiting for %s: %v", what, last)
	}
}

// inParallel runs tests at once in one cluster and returns when all have ended.
func inParallel(
	t *testing.T, c *kubevirttest.Cluster, tests map[string]func(*testing.T, *kubevirttest.Cluster),
) {
	t.Helper()
	t.Run("all", func(t *testing.T) {
		for name, test := range tests {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, c)
			})
		}
	})
}

func list(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func quotaOf(t *testing.T, c *kubevirttest.Cluster, namespace, name string) *corev1.ResourceQuota {
	t.Helper()
	q := &corev1.ResourceQuota{}
	if err := c.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name},
		q); err != nil {
		t.Fatal(err)
	}
	return q
}

// reservations returns the ledger of a namespace.
func reservations(
	t *testing.T, c *kubevirttest.Cluster, namespace string,
) []v1alpha1.MigrationReservation {
	t.Helper()
	all := &unstructured.UnstructuredList{}
	all.SetAPIVersion(v1alpha1.GroupVersion().String())
	all.SetKind("MigrationReservationList")
	if err := c.Client.List(t.Context(), all, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	out := make([]v1alpha1.MigrationReservation, len(all.Items))
	for i, o := range all.Items {
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &out[i]); err !=
			nil {
			t.Fatal(err)
		}
	}
	return out
}

// awaitPhase returns the only reservation of a namespace when it reaches a phase.
func awaitPhase(
	t *testing.T, c *kubevirttest.Cluster, namespace string, phase v1alpha1.Phase,
) v1alpha1.MigrationReservation {
	t.Helper()
	var found v1alpha1.MigrationReservation
	eventually(t, "a reservation that is "+string(phase), func() error {
		all := reservations(t, c, namespace)
		if len(all) != 1 || all[0].Status.Phase != phase {
			return fmt.Errorf("%+v", all)
		}
		found = all[0]
		return nil
	})
	return found
}

// awaitHard returns when spec.hard and status.hard of a quota equal want.
func awaitHard(
	t *testing.T, c *kubevirttest.Cluster, namespace, name string, want corev1.ResourceList,
) {
	t.Helper()
	eventually(t, "the limits", func() error {
		q := quotaOf(t, c, namespace, name)
		if !equality.Semantic.DeepEqual(q.Spec.Hard, want) ||
			!equality.Semantic.DeepEqual(q.Status.Hard, want) {
			return fmt.Errorf("spec.hard %v, status.hard %v, want %v", q.Spec.Hard,
				q.Status.Hard, want)
		}
		return nil
	})
}

// awaitClean returns when all traces of migrations are gone: the quota is at its base without
// annotations, and the ledger is empty.
func awaitClean(
	t *testing.T, c *kubevirttest.Cluster, namespace, name string, base corev1.ResourceList,
) {
	t.Helper()
	awaitHard(t, c, namespace, name, base)
	eventually(t, "all traces to be removed", func() error {
		if all := reservations(t, c, namespace); len(all) > 0 {
			return fmt.Errorf("reservations %+v", all)
		}
		if left := quotaOf(t, c, namespace, name).Annotations; len(left) > 0 {
			return fmt.Errorf("annotations %v", left)
		}
		return nil
	})
}

// awaitPods returns when the namespace's quota counts n pods.
func awaitPods(t *testing.T, c *kubevirttest.Cluster, namespace string, n int64) {
	t.Helper()
	eventually(t, fmt.Sprintf("%d pods to be charged", n), func() error {
		if used := c.Used(t, namespace)["pods"]; used.Value() != n {
			return fmt.Errorf("%s are", &used)
		}
		return nil
	})
}

// plus adds a reservation to the base, in resources of the base.
func plus(base corev1.ResourceList, r v1alpha1.MigrationReservation) corev1.ResourceList {
	sum := base.DeepCopy()
	for _, pod := range r.Spec.Pods {
		for name, charge := range pod.Charge {
			if q, ok := sum[name]; ok {
				q.Add(charge)
				sum[name] = q
			}
		}
	}
	return sum
}

// stopVirtController keeps migrations pending until start is called. Further calls do nothing.
func stopVirtController(t *testing.T, c *kubevirttest.Cluster) (start func()) {
	t.Helper()
	if err := c.KubeVirt.StopController(t.Context()); err != nil {
		t.Fatal(err)
	}
	return sync.OnceFunc(func() {
		t.Helper()
		if err := c.KubeVirt.StartController(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}
