package kubevirtnode

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/hack/kubevirt"
	"github.com/mooring-vm/mooring/quota"
)

// startTwoNodes returns the cluster with Mooring. A cluster with one node skips the test.
func startTwoNodes(t *testing.T) *cluster {
	t.Helper()
	c := start(t)
	if len(c.nodes) < 2 {
		t.Skip("needs two nodes; `make kubevirt NODES=2` has them")
	}
	c.requireMooring(t)
	return c
}

// TestMigration moves a VM with a lock to the other node and, by a drain, back. Each time the quota
// is full. The target has the lock and the tie. The source ends without Mooring, and the quota has
// its old limits.
func TestMigration(t *testing.T) {
	c := startTwoNodes(t)
	vmi := c.runMovable(t, "moving")
	before := c.fillQuota(t)
	for _, test := range []struct {
		name string
		move func(*testing.T, *kubevirtv1.VirtualMachineInstance)
	}{
		{"requested", func(t *testing.T, vmi *kubevirtv1.VirtualMachineInstance) {
			c.awaitMigration(t, c.migrate(t, vmi), kubevirtv1.MigrationSucceeded)
		}},
		{"drained", c.drain},
	} {
		t.Run(test.name, func(t *testing.T) {
			pod, source := c.tied(t, vmi).Pod.Name, vmi.Status.NodeName
			test.move(t, vmi)
			c.awaitMoved(t, vmi, source)
			target := c.on(t, vmi.Status.NodeName)
			lowest := vmi.Spec.Domain.Memory.Guest.Value()
			if got := target.lockLimit(t, target.qemu(t, vmi)); got < lowest {
				t.Errorf("on the target, QEMU may lock %d bytes, want %d or more", got, lowest)
			}
			c.on(t, source).awaitNoQEMU(t, vmi)
			c.awaitEvent(t, pod, string(agentapi.ReasonVMGone))
			c.awaitLauncherEnded(t, pod)
			want := vmi.Status.MigrationState.TargetPod
			if now := c.tied(t, vmi).Pod.Name; now != want {
				t.Errorf("the VM is tied to %s, want the migration's target %s", now, want)
			}
			c.wantNoStop(t, pod)
			c.awaitReserved(t, vmi)
			c.awaitFull(t, before)
		})
	}
}

// drain cordons a VM's node until t ends, and evicts the VM.
func (c *cluster) drain(t *testing.T, vmi *kubevirtv1.VirtualMachineInstance) {
	t.Helper()
	c.cordon(t, vmi.Status.NodeName)
	c.evictToMigrate(t, vmi)
}

// cordon cordons a node. The result uncordons it, at the latest when t ends.
func (c *cluster) cordon(t *testing.T, node string) (uncordon func()) {
	t.Helper()
	c.patchNode(t, node, `{"spec": {"unschedulable": true}}`)
	uncordon = sync.OnceFunc(func() {
		c.patchNode(t, node, `{"spec": {"unschedulable": false}}`)
	})
	t.Cleanup(uncordon)
	return uncordon
}

// patchNode changes a node by a merge patch, also when t ends.
func (c *cluster) patchNode(t *testing.T, name, patch string) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := c.Patch(context.WithoutCancel(t.Context()), node,
		client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Error(err)
	}
}

// evictToMigrate evicts a VM as `kubectl drain` does. KubeVirt refuses the eviction and migrates.
func (c *cluster) evictToMigrate(t *testing.T, vmi *kubevirtv1.VirtualMachineInstance) {
	t.Helper()
	err := c.SubResource("eviction").Create(t.Context(), c.launcher(t, vmi), &policyv1.Eviction{})
	if !apierrors.IsTooManyRequests(err) {
		t.Fatalf("the eviction: got %v, want TooManyRequests", err)
	}
}

// awaitMoved waits until a VM has left a node and its migration is complete.
func (c *cluster) awaitMoved(
	t *testing.T, vmi *kubevirtv1.VirtualMachineInstance, from string,
) {
	t.Helper()
	eventually(t, vmi.Name+" to leave "+from, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(vmi), vmi); err != nil {
			return err
		}
		if s := vmi.Status.MigrationState; vmi.Status.NodeName == from || s == nil ||
			!s.Completed || s.Failed {
			return fmt.Errorf("on %s, migration %+v", vmi.Status.NodeName, s)
		}
		return nil
	})
}

// TestMigrationStopped stops slow migrations through a full quota. The VM goes on at its source
// with lock and tie, and the quota has its old limits.
func TestMigrationStopped(t *testing.T) {
	c := startTwoNodes(t)
	c.slowMigrations(t)
	for _, test := range []struct {
		vm   string
		stop func(*testing.T, *cluster, *kubevirtv1.VirtualMachineInstance,
			*kubevirtv1.VirtualMachineInstanceMigration)
	}{{"aborted", abort}, {"failed", killTarget}} {
		t.Run(test.vm, func(t *testing.T) {
			vmi := c.runMovable(t, test.vm)
			pod, source := c.tied(t, vmi).Pod.Name, c.on(t, vmi.Status.NodeName)
			qemu := source.qemu(t, vmi)
			limit := source.lockLimit(t, qemu)
			before := c.fillQuota(t)
			m := c.migrate(t, vmi)
			c.awaitMigration(t, m, kubevirtv1.MigrationRunning)
			test.stop(t, c, vmi, m)
			c.awaitFull(t, before)
			c.get(t, vmi)
			if vmi.Status.Phase != kubevirtv1.Running || source.qemu(t, vmi) != qemu {
				t.Errorf("the VM is %s as process %s, want process %s", vmi.Status.Phase,
					source.qemu(t, vmi), qemu)
			}
			if now := source.lockLimit(t, qemu); now != limit {
				t.Errorf("QEMU's lock limit changed from %d to %d bytes", limit, now)
			}
			if now := c.tied(t, vmi).Pod.Name; now != pod {
				t.Errorf("the VM is tied to %s, want %s", now, pod)
			}
			c.wantNoStop(t, pod)
		})
	}
}

func abort(
	t *testing.T, c *cluster, _ *kubevirtv1.VirtualMachineInstance,
	m *kubevirtv1.VirtualMachineInstanceMigration,
) {
	if err := c.Delete(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the migration to be gone", func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(m), m); !apierrors.IsNotFound(err) {
			return fmt.Errorf("phase %s, or: %w", m.Status.Phase, err)
		}
		return nil
	})
}

func killTarget(
	t *testing.T, c *cluster, vmi *kubevirtv1.VirtualMachineInstance,
	m *kubevirtv1.VirtualMachineInstanceMigration,
) {
	c.get(t, vmi)
	target := c.on(t, vmi.Status.MigrationState.TargetNode)
	eventually(t, "QEMU on the target", func(ctx context.Context) error {
		pids, err := target.processes(ctx, qemuPattern(vmi))
		if err != nil || len(pids) != 1 {
			return fmt.Errorf("processes %v, or: %w", pids, err)
		}
		return nil
	})
	target.onNode(t, "kill", "-KILL", target.monitor(t, vmi))
	c.awaitMigration(t, m, kubevirtv1.MigrationFailed)
}

// slowMigrations makes a migration take minutes until t ends.
func (c *cluster) slowMigrations(t *testing.T) {
	t.Helper()
	set := func(ctx context.Context, bandwidth string) error {
		o := &kubevirtv1.KubeVirt{ObjectMeta: metav1.ObjectMeta{Name: kubevirt.Name,
			Namespace: kubevirt.Namespace}}
		return c.Patch(ctx, o, client.RawPatch(types.MergePatchType, fmt.Appendf(nil,
			`{"spec": {"configuration": {"migrations": {"bandwidthPerMigration": %s}}}}`,
			bandwidth)))
	}
	if err := set(t.Context(), `"256Ki"`); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := set(context.WithoutCancel(t.Context()), "null"); err != nil {
			t.Error(err)
		}
	})
}

// runMovable runs a VM that may be on any node.
func (c *cluster) runMovable(t *testing.T, name string) *kubevirtv1.VirtualMachineInstance {
	t.Helper()
	vmi := newVMI(name, withLock())
	vmi.Spec.NodeSelector = nil
	vmi.Spec.EvictionStrategy = new(kubevirtv1.EvictionStrategyLiveMigrate)
	c.run(t, vmi)
	return vmi
}

func (c *cluster) get(t *testing.T, o client.Object) {
	t.Helper()
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		t.Fatal(err)
	}
}

const quotaName = "full"

// fillQuota creates a quota that the namespace's pods use up, and returns its limits.
func (c *cluster) fillQuota(t *testing.T) corev1.ResourceList {
	t.Helper()
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: quotaName,
		Namespace: namespace}}
	q.Spec.Hard = corev1.ResourceList{
		corev1.ResourceRequestsMemory: resource.MustParse("1Ti"),
		corev1.ResourcePods:           resource.MustParse("1000"),
	}
	if err := c.Create(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// Mooring refuses the deletion while quota is reserved for a migration.
		if err := await(context.WithoutCancel(t.Context()), "the quota's deletion",
			func(ctx context.Context) error { return c.Delete(ctx, q) }); err != nil {
			t.Error(err)
		}
	})
	eventually(t, "the quota to count the pods", func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(q), q); err != nil {
			return err
		}
		if used := q.Status.Used[corev1.ResourcePods]; used.IsZero() {
			return fmt.Errorf("status is %+v", q.Status)
		}
		return nil
	})
	base := client.MergeFrom(q.DeepCopy())
	q.Spec.Hard = q.Status.Used
	if err := c.Patch(t.Context(), q, base); err != nil {
		t.Fatal(err)
	}
	full := q.Spec.Hard
	c.awaitFull(t, full)
	return full
}

// awaitFull waits until the quota has these limits, enforces them, and the pods use them up.
func (c *cluster) awaitFull(t *testing.T, want corev1.ResourceList) {
	t.Helper()
	eventually(t, "the quota to be full with its old limits", func(ctx context.Context) error {
		q, err := c.quotaWithLimits(ctx, want)
		if err == nil && !sameLimits(q.Status.Used, want) {
			err = fmt.Errorf("want use %v, the quota is %+v", want, q)
		}
		return err
	})
}

// awaitRestored waits until the quota has its old limits. Unlike after awaitFull, a launcher of
// another KubeVirt may use less than the one before.
func (c *cluster) awaitRestored(t *testing.T, want corev1.ResourceList) {
	t.Helper()
	eventually(t, "the quota to have its old limits", func(ctx context.Context) error {
		q, err := c.quotaWithLimits(ctx, want)
		for name, used := range q.Status.Used {
			if limit := want[name]; err == nil && used.Cmp(limit) > 0 {
				err = fmt.Errorf("want use of %v at most, the quota is %+v", want, q)
			}
		}
		return err
	})
}

// quotaWithLimits returns the namespace's quota, and an error if it has other limits.
func (c *cluster) quotaWithLimits(
	ctx context.Context, want corev1.ResourceList,
) (corev1.ResourceQuota, error) {
	q := corev1.ResourceQuota{}
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: quotaName}, &q)
	if err == nil && (!sameLimits(q.Spec.Hard, want) || !sameLimits(q.Status.Hard, want)) {
		err = fmt.Errorf("want limits %v, the quota is %+v", want, q)
	}
	return q, err
}

// sameLimits reports whether a list has all wanted quantities.
func sameLimits(all, want corev1.ResourceList) bool {
	for name, limit := range want {
		if got := all[name]; got.Cmp(limit) != 0 {
			return false
		}
	}
	return true
}

// awaitReserved waits for Mooring's Event that it has reserved quota for a VM's last migration.
func (c *cluster) awaitReserved(t *testing.T, vmi *kubevirtv1.VirtualMachineInstance) {
	t.Helper()
	all := &kubevirtv1.VirtualMachineInstanceMigrationList{}
	if err := c.List(t.Context(), all, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	for _, m := range all.Items {
		if m.UID == vmi.Status.MigrationState.MigrationUID {
			c.awaitEvent(t, m.Name, quota.ReasonReserved)
			return
		}
	}
	t.Errorf("the last migration of %s is not there", vmi.Name)
}

// migrate requests a migration of a VM. It is deleted when t ends.
func (c *cluster) migrate(
	t *testing.T, vmi *kubevirtv1.VirtualMachineInstance,
) *kubevirtv1.VirtualMachineInstanceMigration {
	t.Helper()
	m := &kubevirtv1.VirtualMachineInstanceMigration{ObjectMeta: metav1.ObjectMeta{
		GenerateName: vmi.Name + "-", Namespace: vmi.Namespace}}
	m.Spec.VMIName = vmi.Name
	if err := c.Create(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		err := c.Delete(context.WithoutCancel(t.Context()), m)
		if client.IgnoreNotFound(err) != nil {
			t.Error(err)
		}
	})
	return m
}

func (c *cluster) awaitMigration(
	t *testing.T, m *kubevirtv1.VirtualMachineInstanceMigration,
	want kubevirtv1.VirtualMachineInstanceMigrationPhase,
) {
	t.Helper()
	eventually(t, "migration "+m.Name+" to be "+string(want), func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(m), m); err != nil {
			return err
		}
		if m.Status.Phase != want {
			return fmt.Errorf("phase %q, conditions %v, state %+v", m.Status.Phase,
				m.Status.Conditions, m.Status.MigrationState)
		}
		return nil
	})
}

func (c *cluster) awaitLauncherEnded(t *testing.T, pod string) {
	t.Helper()
	eventually(t, "launcher "+pod+" to end", func(ctx context.Context) error {
		p := &corev1.Pod{}
		err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: pod}, p)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		if err == nil && p.Status.Phase != corev1.PodSucceeded {
			return fmt.Errorf("its phase is %s", p.Status.Phase)
		}
		return nil
	})
}

// wantNoStop fails if an Event reports that Mooring has stopped a VM of this pod.
func (c *cluster) wantNoStop(t *testing.T, pod string) {
	t.Helper()
	events, err := c.events(t.Context(), pod)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		for _, r := range []agentapi.Reason{agentapi.ReasonVMShutdown, agentapi.ReasonVMTerminated,
			agentapi.ReasonVMKilled, agentapi.ReasonOwnerGone, agentapi.ReasonVMUnattended} {
			if strings.HasPrefix(e, string(r)+": ") {
				t.Error(e)
			}
		}
	}
}
