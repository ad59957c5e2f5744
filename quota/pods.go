package quota

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// LauncherApp and AttachmentApp are the values of KubeVirt's app label on launcher pods and on pods
// with hot-plugged disks.
const (
	LauncherApp   = "virt-launcher"
	AttachmentApp = "hotplug-disk"
)

// PodsOfVMs selects the pods for a [Snapshot].
func PodsOfVMs() labels.Selector {
	requirement, err := labels.NewRequirement(kubevirtv1.AppLabel, selection.In,
		[]string{LauncherApp, AttachmentApp})
	if err != nil {
		panic(err) // constants, covered by a test
	}
	return labels.NewSelector().Add(*requirement)
}

// pods indexes the pods of a snapshot.
type pods struct {
	now      time.Time
	byUID    map[types.UID]*corev1.Pod   // launchers
	ofVMI    map[types.UID][]*corev1.Pod // launchers, newest first
	targets  map[string]*corev1.Pod      // launchers, by the UID of their migration
	attached map[types.UID][]*corev1.Pod // attachment pods, by the UID of their launcher

	migrating map[string]bool // UIDs of migrations that have not ended
}

func newPods(s Snapshot) pods {
	p := pods{
		now: s.Now, byUID: map[types.UID]*corev1.Pod{}, ofVMI: map[types.UID][]*corev1.Pod{},
		targets: map[string]*corev1.Pod{}, attached: map[types.UID][]*corev1.Pod{},
		migrating: map[string]bool{},
	}
	for _, m := range s.Migrations {
		p.migrating[string(m.UID)] = !m.IsFinal()
	}
	sorted := slices.SortedFunc(slices.Values(s.Pods), func(a, b *corev1.Pod) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time),
			cmp.Compare(a.UID, b.UID))
	})
	for _, pod := range sorted {
		p.add(pod)
	}
	return p
}

func (p pods) add(pod *corev1.Pod) {
	if pod.Labels[kubevirtv1.AppLabel] != LauncherApp {
		if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == "Pod" {
			p.attached[owner.UID] = append(p.attached[owner.UID], pod)
		}
		return
	}
	p.byUID[pod.UID] = pod
	p.ofVMI[vmiOf(pod)] = append(p.ofVMI[vmiOf(pod)], pod)
	migration := migrationOf(pod)
	if migration == "" {
		return
	}
	if had := p.targets[migration]; had == nil || !Charged(had, p.now) && Charged(pod, p.now) {
		p.targets[migration] = pod
	}
}

// migrationOf returns the UID of the migration for which KubeVirt created a launcher pod, from its
// label; empty for none.
func migrationOf(pod *corev1.Pod) string { return pod.Labels[kubevirtv1.MigrationJobLabel] }

// vmiOf returns the UID of a launcher pod's VMI, from its label.
func vmiOf(launcher *corev1.Pod) types.UID {
	return types.UID(launcher.Labels[kubevirtv1.CreatedByLabel])
}

// family is a launcher pod with its attachment pod. Missing pods are nil.
type family struct {
	now        time.Time
	launcher   *corev1.Pod
	attachment *corev1.Pod // preferably a charged one
}

// target returns the target pod of a migration.
func (p pods) target(migration string) family { return p.family(p.targets[migration]) }

func (p pods) family(launcher *corev1.Pod) family {
	f := family{now: p.now, launcher: launcher}
	if launcher == nil {
		return f
	}
	for _, pod := range p.attached[launcher.UID] {
		if f.attachment == nil || !Charged(f.attachment, p.now) && Charged(pod, p.now) {
			f.attachment = pod
		}
	}
	return f
}

func (f family) pod(role v1alpha1.PodRole) *corev1.Pod {
	if role == v1alpha1.RoleAttachment {
		return f.attachment
	}
	return f.launcher
}

func (f family) charged(role v1alpha1.PodRole) bool {
	pod := f.pod(role)
	return pod != nil && Charged(pod, f.now)
}

// outstanding returns the part of a charge that no pod is charged yet.
func (f family) outstanding(role v1alpha1.PodRole, charge corev1.ResourceList) corev1.ResourceList {
	if f.charged(role) {
		return nil
	}
	out := charge.DeepCopy()
	if f.pod(role) != nil {
		delete(out, countPods)
	}
	return out
}

// reservedPods returns the reservation entries for the charged pods.
func (f family) reservedPods() []v1alpha1.ReservedPod {
	var all []v1alpha1.ReservedPod
	for _, role := range []v1alpha1.PodRole{v1alpha1.RoleLauncher, v1alpha1.RoleAttachment} {
		if f.charged(role) {
			all = append(all, Reserve(role, f.pod(role)))
		}
	}
	return all
}

// storedPods returns the charged pods of the launcher with this UID as reservation entries, and
// with count/pods the ended ones.
func (p pods) storedPods(launcher types.UID) []v1alpha1.ReservedPod {
	return append(p.family(p.byUID[launcher]).reservedPods(), p.endedPods(launcher)...)
}

// endedPods returns the pods of a launcher that have ended and are still stored, as reservation
// entries. Quotas charge count/pods for them. The launcher itself may be gone.
func (p pods) endedPods(launcher types.UID) []v1alpha1.ReservedPod {
	var all []v1alpha1.ReservedPod
	see := func(role v1alpha1.PodRole, pod *corev1.Pod) {
		if pod != nil && !Charged(pod, p.now) {
			entry := Reserve(role, pod)
			entry.Charge = corev1.ResourceList{countPods: one()}
			all = append(all, entry)
		}
	}
	see(v1alpha1.RoleLauncher, p.byUID[launcher])
	for _, pod := range p.attached[launcher] {
		see(v1alpha1.RoleAttachment, pod)
	}
	return all
}

// remainder is the remaining charge of a launcher and its attachment pods.
type remainder int

const (
	nothingCharged   remainder = iota
	storedPodCharged           // count/pods only
	fullyCharged
)

// remainderOf returns the remaining charge of the launcher with this UID. The launcher itself may
// be gone.
func (p pods) remainderOf(launcher types.UID) remainder {
	w := nothingCharged
	if pod := p.byUID[launcher]; pod != nil {
		w = p.podRemainder(pod)
	}
	for _, pod := range p.attached[launcher] {
		w = max(w, p.podRemainder(pod))
	}
	return w
}

func (p pods) podRemainder(pod *corev1.Pod) remainder {
	if Charged(pod, p.now) {
		return fullyCharged
	}
	return storedPodCharged
}

// firstChargeEnd returns the earliest end of charge among the pods in deletion; zero for none.
func (p pods) firstChargeEnd() time.Time {
	var first time.Time
	see := func(pod *corev1.Pod) {
		if until, ends := chargedUntil(pod); ends && Charged(pod, p.now) {
			first = earlier(first, until)
		}
	}
	for uid, pod := range p.byUID {
		see(pod)
		for _, pod := range p.attached[uid] {
			see(pod)
		}
	}
	return first
}

// earlier returns the earlier of two times; zero means none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func reference(pod *corev1.Pod) *v1alpha1.Reference {
	if pod == nil {
		return nil
	}
	return &v1alpha1.Reference{Name: pod.Name, UID: pod.UID}
}
