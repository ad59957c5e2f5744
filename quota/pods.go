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

// LauncherApp and AttachmentApp are the values of KubeVirt's label on launcher pods, and on
// those that hold hot-plugged disks.
const (
	LauncherApp   = "virt-launcher"
	AttachmentApp = "hotplug-disk"
)

// PodsOfVMs selects the pods that a [Snapshot] has.
func PodsOfVMs() labels.Selector {
	requirement, err := labels.NewRequirement(kubevirtv1.AppLabel, selection.In, []string{LauncherApp, AttachmentApp})
	if err != nil {
		panic(err) // constants that a test has seen
	}
	return labels.NewSelector().Add(*requirement)
}

// pods finds the pods of a snapshot.
type pods struct {
	now      time.Time
	byUID    map[types.UID]*corev1.Pod   // launchers
	ofVMI    map[types.UID][]*corev1.Pod // launchers, the newest first
	targets  map[string]*corev1.Pod      // launchers, by the UID of their migration
	attached map[types.UID][]*corev1.Pod // attachment pods, by the UID of their launcher
}

func newPods(s Snapshot) pods {
	p := pods{
		now: s.Now, byUID: map[types.UID]*corev1.Pod{}, ofVMI: map[types.UID][]*corev1.Pod{},
		targets: map[string]*corev1.Pod{}, attached: map[types.UID][]*corev1.Pod{},
	}
	sorted := slices.SortedFunc(slices.Values(s.Pods), func(a, b *corev1.Pod) int {
		return cmp.Or(b.CreationTimestamp.Compare(a.CreationTimestamp.Time), cmp.Compare(a.UID, b.UID))
	})
	for _, pod := range sorted {
		p.enter(pod)
	}
	return p
}

func (p pods) enter(pod *corev1.Pod) {
	if pod.Labels[kubevirtv1.AppLabel] != LauncherApp {
		if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == "Pod" {
			p.attached[owner.UID] = append(p.attached[owner.UID], pod)
		}
		return
	}
	p.byUID[pod.UID] = pod
	vmi := types.UID(pod.Labels[kubevirtv1.CreatedByLabel])
	p.ofVMI[vmi] = append(p.ofVMI[vmi], pod)
	migration := migrationOf(pod)
	if migration == "" {
		return
	}
	if had := p.targets[migration]; had == nil || !Charged(had, p.now) && Charged(pod, p.now) {
		p.targets[migration] = pod
	}
}

// migrationOf is the UID of the migration that a launcher pod was made for; empty: none.
// KubeVirt has it in the label; a label cannot tell what an annotation does not.
func migrationOf(pod *corev1.Pod) string { return pod.Labels[kubevirtv1.MigrationJobLabel] }

// family is a launcher pod with its attachment pods. All are nil where there is none.
type family struct {
	now        time.Time
	launcher   *corev1.Pod
	attachment *corev1.Pod // the one that is charged, if one is
}

// target is the target pod of a migration.
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

// outstanding is what of a charge no pod is charged with yet.
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

// reserve is what there is to reserve for these pods: for those that are charged.
func (f family) reserve() []v1alpha1.ReservedPod {
	var all []v1alpha1.ReservedPod
	for _, role := range []v1alpha1.PodRole{v1alpha1.RoleLauncher, v1alpha1.RoleAttachment} {
		if f.charged(role) {
			all = append(all, Reserve(role, f.pod(role)))
		}
	}
	return all
}

// weight is how much of a launcher and its attachment pods is still charged.
type weight int

const (
	weighsNothing weight = iota
	weighsStored         // count/pods alone
	weighsAll
)

// weigh judges what is left of a launcher with this UID, also where it is gone itself.
func (p pods) weigh(launcher types.UID) weight {
	w := weighsNothing
	if pod := p.byUID[launcher]; pod != nil {
		w = p.weighPod(pod)
	}
	for _, pod := range p.attached[launcher] {
		w = max(w, p.weighPod(pod))
	}
	return w
}

func (p pods) weighPod(pod *corev1.Pod) weight {
	if Charged(pod, p.now) {
		return weighsAll
	}
	return weighsStored
}

// ends is the first moment at which a pod of these that is being deleted is not charged any
// more; zero: none is.
func (p pods) ends() time.Time {
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

// earlier is the earlier of two moments; zero is none.
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
