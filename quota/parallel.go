package quota

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// Parallel are KubeVirt's limits of migrations that run at once. With a limit of zero KubeVirt
// starts no migration.
type Parallel struct {
	Cluster int // in the cluster
	Node    int // with the source on one node
}

// KubeVirt's defaults (pkg/virt-config in 1.6 to 1.9).
const (
	defaultParallelCluster = 5
	defaultParallelNode    = 2
)

// ParallelOf returns the limits in KubeVirt's configuration. KubeVirt's defaults stand for missing
// fields, and not for zeros.
func ParallelOf(c *kubevirtv1.KubeVirtConfiguration) *Parallel {
	p := &Parallel{defaultParallelCluster, defaultParallelNode}
	if c == nil || c.MigrationConfiguration == nil {
		return p
	}
	if n := c.MigrationConfiguration.ParallelMigrationsPerCluster; n != nil {
		p.Cluster = int(*n)
	}
	if n := c.MigrationConfiguration.ParallelOutboundMigrationsPerNode; n != nil {
		p.Node = int(*n)
	}
	return p
}

// slots are the running migrations of a namespace and KubeVirt's limits for them. Other namespaces
// can take some of the free slots, so their number is an upper bound.
//
// KubeVirt picks the next migration by priority, and in no stable order among equals. A quota with
// room for the largest pending target pods, one a slot, has room for any choice.
type slots struct {
	parallel *Parallel      // nil: unknown, and so no limit
	cluster  int            // running migrations
	node     map[string]int // running migrations by the source's node
}

// slots counts the running migrations among the reservations.
func (p pods) slots(parallel *Parallel, ledger []*v1alpha1.MigrationReservation) slots {
	s := slots{parallel: parallel, node: map[string]int{}}
	for _, r := range ledger {
		if p.started(r) && r.Status.Phase != v1alpha1.PhaseReleasing {
			s.cluster++
			s.node[p.sourceNode(r)]++
		}
	}
	return s
}

// started reports whether the target pod of a reservation exists, or its migration has ended.
func (p pods) started(r *v1alpha1.MigrationReservation) bool {
	return p.targets[r.Name] != nil || r.Status.Phase == v1alpha1.PhaseReleasing
}

// sourceNode returns the node of a reservation's source pod; empty if it is not known.
func (p pods) sourceNode(r *v1alpha1.MigrationReservation) string {
	if r.Spec.Source == nil || p.byUID[r.Spec.Source.UID] == nil {
		return ""
	}
	return p.byUID[r.Spec.Source.UID].Spec.NodeName
}

// free returns the number of migrations that can start with the source on a node, and -1 for no
// limit. Without a node it is that of all nodes together.
func (s slots) free(node string) int {
	if s.parallel == nil {
		return -1
	}
	free := max(s.parallel.Cluster-s.cluster, 0)
	if node == "" {
		return free
	}
	return min(free, max(s.parallel.Node-s.node[node], 0))
}

func (s slots) String() string {
	return fmt.Sprintf("KubeVirt runs at most %d migrations at once, and %d from one node",
		s.parallel.Cluster, s.parallel.Node)
}

// pendingCharges are the charges of pending target pods by the node of their source.
type pendingCharges map[string][]corev1.ResourceList

// largest returns, for each resource, the largest sum of pending charges that can start at once.
func (s slots) largest(pending pendingCharges) corev1.ResourceList {
	byName := map[corev1.ResourceName][]resource.Quantity{}
	for node, charges := range pending {
		ofNode := map[corev1.ResourceName][]resource.Quantity{}
		for _, charge := range charges {
			for name, q := range charge {
				ofNode[name] = append(ofNode[name], q)
			}
		}
		for name, all := range ofNode {
			byName[name] = append(byName[name], largest(all, s.free(node))...)
		}
	}
	sum := corev1.ResourceList{}
	for name, all := range byName {
		for _, q := range largest(all, s.free("")) {
			add(sum, corev1.ResourceList{name: q})
		}
	}
	return sum
}

// largest returns the n largest quantities, and all of them for a negative n.
func largest(all []resource.Quantity, n int) []resource.Quantity {
	if n < 0 || n >= len(all) {
		return all
	}
	slices.SortFunc(all, func(a, b resource.Quantity) int { return b.Cmp(a) })
	return all[:n]
}
