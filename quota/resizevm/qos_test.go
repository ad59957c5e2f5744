package resizevm

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/api"
)

// TestResizeKeepsQoSClass grows and shrinks VMs in pods with random resources, in one dimension or
// in both. Each patch keeps the QoS class by the rules of Kubernetes, and the keys of the launcher.
// No request exceeds the limit. Each resize ends with a status that has a reason.
func TestResizeKeepsQoSClass(t *testing.T) {
	seen := map[corev1.PodQOSClass]map[api.ResizeReason]int{}
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(shape{template: drawResources(t, "template", 1),
			launcher: drawResources(t, "launcher", 0)})
		w.drawOthers(t)
		class := referenceClass(w.pod)
		w.pod.Status.QOSClass = class
		for range rapid.IntRange(1, 3).Draw(t, "sizes") {
			w.drawSize(t)
			status := w.settleKeepingQoS(t)
			if status.Message == "" {
				t.Fatalf("status %+v without a reason", status)
			}
			if seen[class] == nil {
				seen[class] = map[api.ResizeReason]int{}
			}
			seen[class][status.Reason]++
		}
	})
	for _, class := range []corev1.PodQOSClass{corev1.PodQOSGuaranteed, corev1.PodQOSBurstable,
		corev1.PodQOSBestEffort} {
		if seen[class][api.ResizeDone] == 0 {
			t.Errorf("no resize of a %s pod ended: %v", class, seen)
		}
	}
}

// drawResources returns valid resources, with or without each amount. Present amounts are not below
// least.
func drawResources(t *rapid.T, name string, least int) corev1.ResourceRequirements {
	r := corev1.ResourceRequirements{Requests: corev1.ResourceList{},
		Limits: corev1.ResourceList{}}
	kind := rapid.SampledFrom([]string{"none", "equal", "any"}).Draw(t, name)
	for _, m := range dimensions() {
		key := corev1.ResourceName(m)
		request := rapid.IntRange(least, 4).Draw(t, name+" request of "+string(key))
		limit := request + rapid.IntRange(0, 2).Draw(t, name+" limit of "+string(key))
		switch kind {
		case "none":
			continue
		case "equal":
			request = max(1, request)
			limit = request
		}
		if rapid.IntRange(0, 3).Draw(t, name+" has request of "+string(key)) > 0 ||
			kind == "equal" {
			r.Requests[key] = quantity(key, request)
		}
		if limit > 0 && (kind == "equal" || rapid.Bool().Draw(t, name+" has limit of "+string(key))) {
			r.Limits[key] = quantity(key, limit)
			if _, ok := r.Requests[key]; !ok {
				r.Requests[key] = r.Limits[key] // as the API server's default
			}
		}
	}
	return r
}

func quantity(name corev1.ResourceName, n int) resource.Quantity {
	if name == corev1.ResourceCPU {
		return resource.MustParse(fmt.Sprint(n*500, "m"))
	}
	return resource.MustParse(fmt.Sprint(n*700, "Mi"))
}

// drawOthers adds other containers to the launcher pod.
func (w *world) drawOthers(t *rapid.T) {
	for i := range rapid.IntRange(0, 2).Draw(t, "other containers") {
		name := fmt.Sprint("other-", i)
		c := corev1.Container{Name: name, Resources: drawResources(t, name, 0)}
		if rapid.Bool().Draw(t, name+" is an init container") {
			w.pod.Spec.InitContainers = append(w.pod.Spec.InitContainers, c)
			continue
		}
		w.pod.Spec.Containers = append(w.pod.Spec.Containers, c)
	}
}

func (w *world) drawSize(t *rapid.T) {
	vcpus := fmt.Sprint(rapid.IntRange(1, 8).Draw(t, "vcpus"))
	memory := fmt.Sprint(rapid.IntRange(1, 8).Draw(t, "memory"), "Gi")
	switch rapid.IntRange(0, 2).Draw(t, "dimensions") {
	case 0:
		w.ask(api.VCPUsKey, vcpus)
	case 1:
		w.ask(api.ResizeMemoryKey, memory)
	default:
		w.ask(api.VCPUsKey, vcpus, api.ResizeMemoryKey, memory)
	}
}

// settleKeepingQoS runs all parts until the decision has no patch, and checks each patch.
func (w *world) settleKeepingQoS(t *rapid.T) *api.ResizeStatus {
	for range 12 {
		d := w.decide(t)
		w.checkPatch(t, d)
		if d.Resources == nil && len(d.Annotations) == 0 &&
			(d.Status == nil || d.Status.Reason != api.ResizeUnderWay) {
			return d.Status
		}
		w.apply(d)
		if rapid.IntRange(0, 3).Draw(t, "kubelet defers") == 0 {
			w.deferResize()
			d := w.decide(t)
			w.checkPatch(t, d)
			w.apply(d)
		}
		w.accept()
		w.follow()
	}
	t.Fatalf("the resize does not end: %+v", w.decide(t).Status)
	return nil
}

// checkPatch acts as the API server's validation of a resize.
func (w *world) checkPatch(t *rapid.T, d Decision) {
	if d.Resources == nil {
		return
	}
	now, to := *w.resources(), *d.Resources
	after := w.pod.DeepCopy()
	after.Spec.Containers[0].Resources = to
	if was, is := w.pod.Status.QOSClass, referenceClass(after); was != is {
		t.Fatalf("QoS class %s becomes %s: resources %+v, patch %+v", was, is, now, to)
	}
	if !slices.Equal(names(now), names(to)) {
		t.Fatalf("keys change: resources %+v, patch %+v", now, to)
	}
	for name, limit := range to.Limits {
		if request := to.Requests[name]; request.Cmp(limit) > 0 {
			t.Fatalf("request of %s exceeds its limit: %+v", name, to)
		}
	}
}

// referenceClass follows ComputePodQOS of Kubernetes 1.37 by its definition in the documentation:
// Guaranteed pods have equal requests and limits of CPU and memory in each container, and
// BestEffort pods have none.
func referenceClass(pod *corev1.Pod) corev1.PodQOSClass {
	all := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
	equal, none := true, true
	for _, c := range all {
		for _, m := range dimensions() {
			request := c.Resources.Requests[corev1.ResourceName(m)]
			limit := c.Resources.Limits[corev1.ResourceName(m)]
			equal = equal && !limit.IsZero() && request.Cmp(limit) == 0
			none = none && limit.IsZero() && request.IsZero()
		}
	}
	switch {
	case equal:
		return corev1.PodQOSGuaranteed
	case none:
		return corev1.PodQOSBestEffort
	}
	return corev1.PodQOSBurstable
}
