package resizevm

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/memlock/kubevirt/vmi"
)

// findLauncher sets the launcher that runs the VM, and its report. Without one it returns the
// reason.
func (d *decision) findLauncher() (api.ResizeReason, string) {
	const later = "the VM gets the size when it runs"
	if d.VMI == nil || d.VMI.DeletionTimestamp != nil {
		return api.ResizeNotRunning, later
	}
	var live []*corev1.Pod
	for _, pod := range d.Pods {
		if isLive(pod) {
			live = append(live, pod)
		}
	}
	switch {
	case len(live) > 1 || migrating(d.VMI):
		return api.ResizeMigrating, "the VM migrates, or KubeVirt changes it: it gets the size " +
			"afterwards"
	case len(live) == 0 || live[0].Status.Phase != corev1.PodRunning || !d.VMI.IsRunning():
		return api.ResizeNotRunning, later
	}
	return d.setLauncher(live[0])
}

// isLive reports whether a pod has neither ended nor been deleted. KubeVirt keeps ended launchers.
func isLive(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp == nil && pod.Status.Phase != corev1.PodSucceeded &&
		pod.Status.Phase != corev1.PodFailed
}

func (d *decision) setLauncher(pod *corev1.Pod) (api.ResizeReason, string) {
	at := slices.IndexFunc(pod.Spec.Containers,
		func(c corev1.Container) bool { return c.Name == compute })
	if at < 0 {
		return api.ResizeRefused, fmt.Sprintf("pod %s has no container %q", pod.Name, compute)
	}
	d.pod, d.container = pod, &pod.Spec.Containers[at]
	if report, ok := d.Reports[string(pod.UID)]; ok {
		d.latest = &report
		if a := report.Actual; a != nil {
			d.actual = new(api.AmountsOf(api.Size{VCPUs: a.VCPUs, Memory: api.Bytes(a.Memory)}))
		}
	}
	return "", ""
}

// report returns the report about the desired size of the ready dimensions; nil: none yet. A report
// of success also needs an actual size within the desired one.
func (d *decision) report() *v1alpha1.ResizeReport {
	r, size := d.latest, d.readySize()
	vcpus, memory := size.VCPUs, int64(size.Memory)
	if r == nil || r.Wanted == nil || vcpus != 0 && r.Wanted.VCPUs != vcpus ||
		memory != 0 && r.Wanted.Memory != memory {
		return nil
	}
	if podapi.State(r.State) == podapi.StateDone && (r.Actual == nil ||
		vcpus != 0 && r.Actual.VCPUs > vcpus || memory != 0 && r.Actual.Memory > memory) {
		return nil
	}
	return r
}

// migrating reports whether a migration or a live update of KubeVirt is under way.
func migrating(vmi *kubevirtv1.VirtualMachineInstance) bool {
	if m := vmi.Status.MigrationState; m != nil && !m.Completed && !m.Failed {
		return true
	}
	return slices.ContainsFunc(vmi.Status.Conditions,
		func(c kubevirtv1.VirtualMachineInstanceCondition) bool {
			changes := c.Type == kubevirtv1.VirtualMachineInstanceVCPUChange ||
				c.Type == kubevirtv1.VirtualMachineInstanceMemoryChange
			return changes && c.Status == corev1.ConditionTrue
		})
}

// refusal returns why the VM cannot have the size until it restarts; "": it may.
func (d *decision) refusal() string {
	_, recorded, err := api.RenderedResources(d.pod.Annotations)
	_, sidecar, _ := api.Sidecar(d.pod.Annotations)
	switch {
	case !sidecar:
		return fmt.Sprintf("pod %s has no mooring-shim: set annotation %s: \"true\" in "+
			"spec.template.metadata of the VM, and restart it", d.pod.Name, api.InjectSidecarKey)
	case err != nil:
		return fmt.Sprintf("pod %s: %v", d.pod.Name, err)
	case !recorded:
		return fmt.Sprintf("pod %s has no annotation %s: the launcher webhook was off at its "+
			"start; restart the VM", d.pod.Name, api.RenderedKey)
	case d.pod.Status.QOSClass == corev1.PodQOSGuaranteed && d.VMI.IsCPUDedicated():
		return "kubelet resizes no Guaranteed pod with dedicated CPUs: change spec.template of " +
			"the VM, and restart it"
	}
	return d.beyondInstance()
}

// beyondInstance compares the desired size with the bounds of the VM's definition. A hook of
// Mooring gives the domain bounds of its own, which mooring-shim checks.
func (d *decision) beyondInstance() string {
	hooks, err := vmi.HookSidecars(d.VMI.Annotations)
	own := slices.ContainsFunc(hooks, vmi.HookSidecar.IsMooring)
	var all []string
	vcpus, memory := maxVCPUs(d.VMI), maxMemory(d.VMI)
	if err == nil && !own && vcpus > 0 && int64(d.desired.VCPUs) > vcpus {
		all = append(all, fmt.Sprintf("annotation %s: \"%d\": want 1 to %d, by maxSockets of the VM",
			api.VCPUsKey, d.desired.VCPUs, vcpus))
	}
	if err == nil && !own && memory > 0 && int64(d.desired.Memory) > memory {
		all = append(all, fmt.Sprintf("annotation %s: %q: want at most %s, which is maxGuest of "+
			"the VM", api.ResizeMemoryKey, d.desired.Memory.String(), api.Bytes(memory)))
	}
	guest := guestMemory(&d.VMI.Spec.Domain)
	if m := d.VMI.Spec.Domain.Memory; m != nil && m.Hugepages != nil && d.desired.Memory != 0 &&
		int64(d.desired.Memory) != guest {
		all = append(all, fmt.Sprintf("annotation %s: %q: want %s: the limit of huge pages is fixed "+
			"until the VM restarts", api.ResizeMemoryKey, d.desired.Memory.String(),
			api.Bytes(guest)))
	}
	return strings.Join(all, "; ")
}

// missingAnnotations returns the patch of the pod's annotations that mooring-shim follows, for the
// ready dimensions. It removes more specific annotations of the same dimension.
func (d *decision) missingAnnotations() map[string]*string {
	patch := map[string]*string{}
	for key, value := range d.readySize().Annotations() {
		for own := range d.pod.Annotations {
			if base, _, scoped := strings.Cut(own, "/"); scoped && base == key {
				patch[own] = nil
			}
		}
		if d.pod.Annotations[key] != value {
			patch[key] = &value
		}
	}
	return patch
}
