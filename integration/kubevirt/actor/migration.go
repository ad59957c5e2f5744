package actor

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	virtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// migrate takes the VMI's migration one step further. After the migration it ends the remaining
// launcher.
func (v *virtHandler) migrate(ctx context.Context, vmi *virtv1.VirtualMachineInstance) error {
	state := vmi.Status.MigrationState
	if state == nil || state.MigrationUID == "" {
		return nil
	}
	if isEnded(state) {
		return v.endLeftOver(ctx, vmi)
	}
	m, err := v.migrationOf(ctx, vmi)
	if err != nil || m == nil {
		return err
	}
	step(vmi, m)
	return nil
}

func isEnded(s *virtv1.VirtualMachineInstanceMigrationState) bool { return s.Completed || s.Failed }

func (v *virtHandler) migrationOf(
	ctx context.Context, vmi *virtv1.VirtualMachineInstance,
) (*virtv1.VirtualMachineInstanceMigration, error) {
	all := &virtv1.VirtualMachineInstanceMigrationList{}
	if err := v.api.List(ctx, all, client.InNamespace(vmi.Namespace)); err != nil {
		return nil, fmt.Errorf("listing migrations: %w", err)
	}
	i := slices.IndexFunc(all.Items, func(m virtv1.VirtualMachineInstanceMigration) bool {
		return m.UID == vmi.Status.MigrationState.MigrationUID
	})
	if i < 0 {
		return nil, nil
	}
	return &all.Items[i], nil
}

// step writes the changes of both nodes' virt-handlers into the VMI's status, after virt-controller
// has processed the previous step.
func step(vmi *virtv1.VirtualMachineInstance, m *virtv1.VirtualMachineInstanceMigration) {
	state := vmi.Status.MigrationState
	reason, fails := m.Annotations[Fail]
	switch phase := m.Status.Phase; {
	case state.AbortRequested:
		state.AbortStatus = virtv1.MigrationAbortSucceeded
		fail(vmi, "Live migration has been aborted")
	case fails:
		fail(vmi, reason)
	case !mayLeave(phase, m.Annotations[Until]):
	case phase == virtv1.MigrationPreparingTarget:
		state.TargetNodeAddress = "192.0.2.2"
		state.TargetDirectMigrationNodePorts = map[string]int{"49152": 49152}
	case phase == virtv1.MigrationTargetReady:
		state.StartTimestamp = new(metav1.Now())
		state.Mode = virtv1.MigrationPreCopy
	case phase == virtv1.MigrationRunning:
		complete(vmi)
	}
}

func mayLeave(phase virtv1.VirtualMachineInstanceMigrationPhase, until string) bool {
	order := []virtv1.VirtualMachineInstanceMigrationPhase{
		virtv1.MigrationPreparingTarget, virtv1.MigrationTargetReady, virtv1.MigrationRunning,
	}
	last := slices.Index(order, virtv1.VirtualMachineInstanceMigrationPhase(until))
	return until == "" || slices.Index(order, phase) < last
}

func fail(vmi *virtv1.VirtualMachineInstance, reason string) {
	state := vmi.Status.MigrationState
	state.Failed, state.FailureReason = true, reason
	handBack(vmi)
}

// complete hands the VMI over to the target, with CPUs and memory plugged in during the migration.
func complete(vmi *virtv1.VirtualMachineInstance) {
	state, now := vmi.Status.MigrationState, metav1.Now()
	state.Completed = true
	state.TargetNodeDomainDetected, state.TargetNodeDomainReadyTimestamp = true, &now
	vmi.Status.NodeName, vmi.Labels[virtv1.NodeNameLabel] = state.TargetNode, state.TargetNode
	vmi.Status.EvacuationNodeName = ""
	vmi.Status.LauncherContainerImageVersion = ""
	delete(vmi.Annotations, virtv1.EvictionSourceAnnotation)
	delete(vmi.Labels, virtv1.OutdatedLauncherImageLabel)
	removeConditions(vmi, virtv1.VirtualMachineInstanceVCPUChange,
		virtv1.VirtualMachineInstanceMemoryChange,
		virtv1.VirtualMachineInstanceMigrationRequired)
	if m := vmi.Spec.Domain.Memory; m != nil && m.Guest != nil && vmi.Status.Memory != nil {
		vmi.Status.Memory.GuestCurrent, vmi.Status.Memory.GuestRequested = m.Guest, m.Guest
	}
	handBack(vmi)
}

// handBack ends the target node's part in the migration.
func handBack(vmi *virtv1.VirtualMachineInstance) {
	now := metav1.Now()
	if vmi.Status.MigrationState.StartTimestamp == nil {
		vmi.Status.MigrationState.StartTimestamp = &now
	}
	vmi.Status.MigrationState.EndTimestamp = &now
	delete(vmi.Labels, virtv1.MigrationTargetNodeNameLabel)
}

// endLeftOver ends the source's launcher after a success, and the target's after a failure. Real
// launchers exit by themselves.
func (v *virtHandler) endLeftOver(ctx context.Context, vmi *virtv1.VirtualMachineInstance) error {
	state := vmi.Status.MigrationState
	name := state.SourcePod
	if state.Failed {
		name = state.TargetPod
	}
	pod := &corev1.Pod{}
	if err := v.api.Get(ctx, types.NamespacedName{Namespace: vmi.Namespace, Name: name},
		pod); err != nil {
		return client.IgnoreNotFound(err)
	}
	return end(ctx, v.api, pod)
}
