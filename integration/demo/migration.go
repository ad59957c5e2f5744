package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	virtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
	"github.com/mooring-vm/mooring/integration/kubevirt/actor"
)

// The VM of this part, and the quota of its namespace: room for one launcher pod of this VM.
const (
	vmName      = "db"
	vmMemory    = "1Gi"
	quotaMemory = "2Gi"
)

// poll calls done until it returns true. An error after waitTimeout says so.
func poll(ctx context.Context, done func(context.Context) (bool, error)) error {
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, waitTimeout, true, done)
}

func (d *demo) showMigration(ctx context.Context) error {
	const starting = "starting kube-apiserver and KubeVirt (the first time they are built from " +
		"their modules)"
	if err := d.screen.during(starting, func() error { return d.cluster.await(ctx) }); err != nil {
		return err
	}
	m := &migration{demo: d, api: d.cluster.Client}
	for _, step := range []func(context.Context) error{m.startVM, m.migrate,
		m.startController, m.finish} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// migration is the migration of a VM in a namespace with a full quota.
type migration struct {
	*demo
	api    client.Client
	quota  *corev1.ResourceQuota
	vmi    *virtv1.VirtualMachineInstance
	object *virtv1.VirtualMachineInstanceMigration
	source string // the VM's node before the migration
}

// startVM creates the namespace, its quota, and a running VM.
func (m *migration) startVM(ctx context.Context) error {
	m.screen.step("a namespace with a quota of " + quotaMemory + ", and VM " + vmName + " of " +
		vmMemory + " in it")
	err := m.screen.during("virt-controller creates the launcher pod, and the VM starts",
		func() error {
			if err := m.createNamespace(ctx); err != nil {
				return err
			}
			m.vmi = kubevirttest.NewVMI(namespace, vmName,
				kubevirttest.Size{Cores: 1, Memory: vmMemory})
			if err := m.api.Create(ctx, m.vmi); err != nil {
				return err
			}
			return m.poll(ctx, m.vmi, "VM "+vmName+" to run",
				func() bool { return m.vmi.IsRunning() && m.vmi.Status.NodeName != "" })
		})
	if err != nil {
		return err
	}
	m.source = m.vmi.Status.NodeName
	used := func() bool { return !m.memory(m.quota.Status.Used).IsZero() }
	if err := m.poll(ctx, m.quota, "the quota to count the launcher", used); err != nil {
		return err
	}
	m.check(true, fmt.Sprintf("the VM runs on %s, its launcher uses %s of %s", m.source,
		mebibytes(m.memory(m.quota.Status.Used)), quotaMemory), "")
	return nil
}

// createNamespace returns when VMs can be created and the quota is enforced.
func (m *migration) createNamespace(ctx context.Context) error {
	if err := m.api.Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		return err
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
		Name: "default"}}
	if err := m.poll(ctx, account, "the service account of the namespace",
		func() bool { return true }); err != nil {
		return err
	}
	m.quota = &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
		Name: "quota"}}
	m.quota.Spec.Hard = corev1.ResourceList{
		corev1.ResourceRequestsMemory: resource.MustParse(quotaMemory)}
	if err := m.api.Create(ctx, m.quota); err != nil {
		return err
	}
	return m.poll(ctx, m.quota, "the quota to be enforced",
		func() bool { return len(m.quota.Status.Hard) > 0 })
}

// migrate begins the migration while mooring-controller does not run.
func (m *migration) migrate(ctx context.Context) error {
	m.screen.step("a live migration of VM " + vmName + ", without mooring-controller")
	m.object = &virtv1.VirtualMachineInstanceMigration{
		// The migration stops at this phase, so that the check can read the raised quota.
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "migration",
			Annotations: map[string]string{actor.Until: string(virtv1.MigrationPreparingTarget)},
		},
		Spec: virtv1.VirtualMachineInstanceMigrationSpec{VMIName: vmName},
	}
	if err := m.api.Create(ctx, m.object); err != nil {
		return err
	}
	err := m.screen.during("virt-controller tries to create the target pod", func() error {
		return m.poll(ctx, m.object, "virt-controller to report the full quota", m.rejected)
	})
	if err != nil {
		return err
	}
	m.check(m.object.Status.Phase == virtv1.MigrationPending,
		fmt.Sprintf("the migration is %s: %s", m.object.Status.Phase,
			virtv1.VirtualMachineInstanceMigrationRejectedByResourceQuota),
		fmt.Sprintf("the migration is %s, should be %s", m.object.Status.Phase,
			virtv1.MigrationPending))
	return nil
}

// rejected reports whether KubeVirt found no room for the target pod.
func (m *migration) rejected() bool {
	return slices.ContainsFunc(m.object.Status.Conditions,
		func(c virtv1.VirtualMachineInstanceMigrationCondition) bool {
			return c.Type == virtv1.VirtualMachineInstanceMigrationRejectedByResourceQuota &&
				c.Status == corev1.ConditionTrue
		})
}

// startController starts mooring-controller, and waits until the target pod has its room.
func (m *migration) startController(ctx context.Context) error {
	m.screen.step("starting mooring-controller, with the roles of deploy/kubernetes/controller-role.yaml")
	base := m.memory(m.quota.Status.Hard)
	err := m.screen.during("mooring-controller reserves the room for the target pod", func() error {
		if err := m.cluster.startController(ctx); err != nil {
			return err
		}
		return m.poll(ctx, m.object, "the target pod",
			func() bool { return m.object.Status.Phase == virtv1.MigrationPreparingTarget })
	})
	if err != nil {
		return err
	}
	if err := m.api.Get(ctx, client.ObjectKeyFromObject(m.quota), m.quota); err != nil {
		return err
	}
	now := m.memory(m.quota.Spec.Hard)
	m.check(now.Cmp(*base) > 0, fmt.Sprintf("the quota is %s during the migration, and the "+
		"target pod has started", mebibytes(now)),
		fmt.Sprintf("the quota is still %s", mebibytes(now)))
	return nil
}

// finish lets the migration continue. It checks the VM's node and that the quota is as before.
func (m *migration) finish(ctx context.Context) error {
	m.screen.step("the migration continues")
	before := m.object.DeepCopy()
	delete(m.object.Annotations, actor.Until)
	if err := m.api.Patch(ctx, m.object, client.MergeFrom(before)); err != nil {
		return err
	}
	base := resource.MustParse(quotaMemory)
	err := m.screen.during("the VM moves to the other node", func() error {
		if err := m.poll(ctx, m.object, "the end of the migration", m.object.IsFinal); err != nil {
			return err
		}
		return m.api.Get(ctx, client.ObjectKeyFromObject(m.vmi), m.vmi)
	})
	if err != nil {
		return err
	}
	succeeded := m.object.Status.Phase == virtv1.MigrationSucceeded &&
		m.vmi.Status.NodeName != m.source
	m.check(succeeded, fmt.Sprintf("the migration is %s, the VM runs on %s", m.object.Status.Phase,
		m.vmi.Status.NodeName),
		fmt.Sprintf("the migration is %s, the VM runs on %s: want it Succeeded, on another node "+
			"than %s", m.object.Status.Phase, m.vmi.Status.NodeName, m.source))
	err = m.screen.during("the source pod ends", func() error {
		return m.poll(ctx, m.quota, "the old quota",
			func() bool { return m.memory(m.quota.Spec.Hard).Cmp(base) == 0 })
	})
	if err != nil {
		return err
	}
	m.check(true, fmt.Sprintf("the quota is %s again", quotaMemory), "")
	return nil
}

// poll reads an object until it is there and done returns true.
func (m *migration) poll(
	ctx context.Context, o client.Object, condition string, done func() bool,
) error {
	err := poll(ctx, func(ctx context.Context) (bool, error) {
		err := m.api.Get(ctx, client.ObjectKeyFromObject(o), o)
		return err == nil && done(), client.IgnoreNotFound(err)
	})
	if err != nil && ctx.Err() == nil {
		return errors.Join(fmt.Errorf("waiting for %s", condition), err)
	}
	return err
}

// mebibytes is a quantity in Mi, rounded up. A launcher's overhead is no whole number of Mi.
func mebibytes(q *resource.Quantity) string {
	return fmt.Sprintf("%dMi", (q.Value()+mib-1)/mib)
}

// memory is the quota's requests.memory in a list of resources.
func (*migration) memory(list corev1.ResourceList) *resource.Quantity {
	q := list[corev1.ResourceRequestsMemory]
	return &q
}
