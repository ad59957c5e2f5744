package launcher

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/mooring-vm/mooring/api"
)

// newSource is the launcher that runs the fixture VM.
func newSource(change ...func(*corev1.Pod)) corev1.Pod {
	pod := newPod(map[string]string{api.RenderedKey: asCame})
	pod.Name, pod.UID, pod.Spec.NodeName, pod.Status.Phase = "source", "source", "node-1",
		corev1.PodRunning
	for _, do := range change {
		do(pod)
	}
	return *pod
}

// resizedTo acts as pods/resize.
func resizedTo(r corev1.ResourceRequirements) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Spec.Containers[0].Resources = r }
}

func annotated(annotations map[string]string) func(*corev1.Pod) {
	return func(pod *corev1.Pod) { pod.Annotations = annotations }
}

func TestTargetSize(t *testing.T) {
	rendered := resources("200m", "2300Mi", "2", "3Gi")
	larger := resources("400m", "4Gi", "4", "5Gi")
	for name, c := range map[string]struct {
		source corev1.Pod
		want   corev1.ResourceRequirements
	}{
		"as it was": {newSource(), rendered},
		"resized":   {newSource(resizedTo(larger)), larger},
		"in one": {newSource(resizedTo(resources("200m", "2300Mi", "2", "5Gi"))),
			resources("200m", "2300Mi", "2", "5Gi")},
		"in the same, written": {
			newSource(resizedTo(resources("0.2", "2300Mi", "2000m", "3072Mi"))), rendered},
		"smaller": {newSource(resizedTo(resources("100m", "1Gi", "1", "2Gi"))), rendered},
		"memory alone is smaller": {
			newSource(resizedTo(resources("400m", "1Gi", "4", "2Gi"))),
			resources("400m", "2300Mi", "4", "3Gi")},
		"without a record": {newSource(annotated(nil), resizedTo(larger)), rendered},
		"without, but requested": {newSource(annotated(map[string]string{api.VCPUsKey: "4"}),
			resizedTo(larger)), larger},
		"a record of something else": {
			newSource(annotated(map[string]string{api.RenderedKey: "x", api.VCPUsKey: "4"}),
				resizedTo(larger)), larger},
		"still larger than is wanted": {newSource(inForce(larger)), larger},
		"more than its node can give": {newSource(resizedTo(larger), inForce(rendered), infeasible),
			rendered},
		"rendered larger, and never resized": {newSource(annotated(map[string]string{
			api.RenderedKey: `{"requests":{"cpu":"400m","memory":"4Gi"},"limits":{"cpu":"4000m","memory":"5Gi"}}`}),
			resizedTo(larger)), rendered},
	} {
		t.Run(name, func(t *testing.T) {
			in := input(newTarget(nil), newVMI())
			in.Launchers = []corev1.Pod{c.source}
			pod := mutated(t, in)
			if diff := cmp.Diff(c.want, pod.Spec.Containers[0].Resources); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if was, ok := pod.Annotations[api.RenderedKey]; ok && was != asCame {
				t.Errorf("recorded %s, want the rendered %s", was, asCame)
			}
		})
	}
}

func inForce(r corev1.ResourceRequirements) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{
			{Name: compute, Resources: &r, AllocatedResources: r.Requests}}
	}
}

func infeasible(pod *corev1.Pod) {
	pod.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodResizePending, Reason: corev1.PodReasonInfeasible}}
}

// Annotated sizes move to the target and take precedence over the VM's spec.
func TestTargetAnnotations(t *testing.T) {
	in := input(newTarget(map[string]string{api.ResizeMemoryKey + "/container.compute": "1Gi",
		api.CPUQuotaKey: "100%"}), newVMI(withGPUs(1)))
	in.Launchers = []corev1.Pod{newSource(annotated(map[string]string{
		api.RenderedKey: asCame, api.VCPUsKey: "8", api.ResizeMemoryKey: "6Gi",
		api.CPUSharesKey: "200", "value.memlock.mooring.dev": "1Ti",
	}))}
	pod := mutated(t, in)
	want := locked(api.OverheadKey, pod.Annotations[api.OverheadKey], api.DevicesKey, "vfio=1",
		api.VCPUsKey, "8", api.ResizeMemoryKey, "6Gi",
		api.CPUQuotaKey, "100%", api.CPUSharesKey, "200", api.GuestMemoryKey, "6Gi",
		api.ValueKey, pod.Annotations[api.ValueKey], api.AddedKey, pod.Annotations[api.ValueKey])
	if diff := cmp.Diff(want, pod.Annotations); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// The memory lock of a target fits the VM's actual size, also if only its limits show it.
func TestTargetLock(t *testing.T) {
	larger := resizedTo(resources("200m", "2300Mi", "2", "9Gi"))
	for name, c := range map[string]struct {
		source corev1.Pod
		guest  string
		more   int64 // bytes above the source's overhead
	}{
		"as it was":    {newSource(), "2Gi", 0},
		"by its limit": {newSource(larger), "9Gi", 0},
		"without a record": {newSource(annotated(map[string]string{api.VCPUsKey: "2"}),
			larger), "9Gi", 0},
		"by an annotation": {
			newSource(annotated(map[string]string{api.RenderedKey: asCame,
				api.ResizeMemoryKey: "5Gi"})), "5Gi", 0},
		"smaller than it can be": {
			newSource(annotated(map[string]string{api.RenderedKey: asCame,
				api.ResizeMemoryKey: "1Gi"})), "2Gi", 0},
		"eight more vCPUs": {
			newSource(annotated(map[string]string{api.RenderedKey: asCame, api.VCPUsKey: "10"})),
			"2Gi", 64 * mi},
		"fewer vCPUs than it can": {
			newSource(annotated(map[string]string{api.RenderedKey: asCame, api.VCPUsKey: "1"})),
			"2Gi", 0},
	} {
		in := input(newTarget(nil), newVMI(withGPUs(1)))
		own := overheadOf(t, mutated(t, in))
		in.Launchers = []corev1.Pod{c.source}
		pod := mutated(t, in)
		overhead := overheadOf(t, pod)
		if pod.Annotations[api.GuestMemoryKey] != c.guest || c.guest == "2Gi" &&
			overhead != own+c.more {
			t.Errorf("%s: guest memory %s, overhead %d, and %d of a VM that was not resized", name,
				pod.Annotations[api.GuestMemoryKey], overhead, own)
		}
	}
}

func overheadOf(t *testing.T, pod *corev1.Pod) int64 {
	t.Helper()
	request, err := api.Parse(pod.Annotations, compute)
	if err != nil || request.Overhead == nil {
		t.Fatalf("overhead %v, %v", request.Overhead, err)
	}
	return int64(*request.Overhead)
}

// Requests never exceed limits after any resize.
func TestTargetIsValid(t *testing.T) {
	amount := func(t *rapid.T, name string, least int64) resource.Quantity {
		return *resource.NewQuantity(rapid.Int64Range(least, 8).Draw(t, name), resource.DecimalSI)
	}
	list := func(t *rapid.T, name string, least corev1.ResourceList) corev1.ResourceList {
		out := corev1.ResourceList{}
		for _, r := range resizableResources() {
			if q, ok := least[r]; rapid.Bool().Draw(t, "has") || ok && name == "limits" &&
				rapid.Bool().Draw(t, "limited") {
				out[r] = amount(t, name, q.Value())
			}
		}
		return out
	}
	draw := func(t *rapid.T) corev1.ResourceRequirements {
		requests := list(t, "requests", nil)
		return corev1.ResourceRequirements{Requests: requests, Limits: list(t, "limits", requests)}
	}
	rapid.Check(t, func(t *rapid.T) {
		in := input(newTarget(nil), newVMI())
		rendered := draw(t)
		in.Pod.Spec.Containers[0].Resources = rendered
		in.Launchers = []corev1.Pod{newSource(resizedTo(draw(t)))}
		out, err := Mutate(in)
		if err != nil {
			t.Fatal(err)
		}
		if out.Pod == nil {
			t.Skip("left as it is")
		}
		got := out.Pod.Spec.Containers[0].Resources
		for _, name := range resizableResources() {
			request, limit, was := got.Requests[name], got.Limits[name], rendered.Requests[name]
			if _, ok := got.Limits[name]; ok && request.Cmp(limit) > 0 || request.Cmp(was) < 0 {
				t.Fatalf("got %+v, rendered %+v", got, rendered)
			}
		}
	})
}

// The launcher of two that runs the VM matters only if one was resized.
func TestTwoSources(t *testing.T) {
	larger := resizedTo(resources("400m", "4Gi", "4", "5Gi"))
	named := func(pod *corev1.Pod) { pod.Name = "other" }
	for name, c := range map[string]struct {
		launchers []corev1.Pod
		refused   bool
	}{
		"none":                {nil, false},
		"neither was resized": {[]corev1.Pod{newSource(), newSource(named)}, false},
		"one was":             {[]corev1.Pod{newSource(larger), newSource(named)}, true},
		"the other elsewhere": {[]corev1.Pod{newSource(), newSource(larger, func(p *corev1.Pod) {
			p.Spec.NodeName = "node-2"
		})}, false},
		"the other has ended": {[]corev1.Pod{newSource(), newSource(larger, func(p *corev1.Pod) {
			p.Status.Phase = corev1.PodSucceeded
		})}, false},
		"the other is ending": {[]corev1.Pod{newSource(), newSource(larger, func(p *corev1.Pod) {
			p.DeletionTimestamp = new(metav1.Now())
		})}, false},
		"the other is another's": {[]corev1.Pod{newSource(), newSource(larger, func(p *corev1.Pod) {
			p.OwnerReferences[0].UID = "x"
		})}, false},
		"the other is of this migration": {
			[]corev1.Pod{newSource(), newSource(larger, func(p *corev1.Pod) {
				p.Labels[kubevirtv1.MigrationJobLabel] = "migration-uid"
			})}, false},
	} {
		in := input(newTarget(nil), newVMI())
		in.Launchers = c.launchers
		out, err := Mutate(in)
		if c.refused {
			if refusal, ok := errors.AsType[*Refusal](err); !ok || out.Pod != nil ||
				!strings.Contains(refusal.Error(), "has 2 launchers: other, source") {
				t.Errorf("%s: got %v", name, err)
			}
		} else if err != nil || out.Pod != nil {
			t.Errorf("%s: got %v, %v", name, err, out.Pod)
		}
	}
}

// The VM runs in the launcher listed by KubeVirt.
func TestActiveSources(t *testing.T) {
	larger := resizedTo(resources("400m", "4Gi", "4", "5Gi"))
	other := func(pod *corev1.Pod) { pod.Name, pod.UID = "other", "other" }
	for name, c := range map[string]struct {
		active    []types.UID
		launchers []corev1.Pod
		refused   bool
		resized   bool
	}{
		"the resized one": {[]types.UID{"source"},
			[]corev1.Pod{newSource(larger), newSource(other)}, false, true},
		"the other": {[]types.UID{"source"},
			[]corev1.Pod{newSource(), newSource(other, larger)}, false, false},
		"both": {[]types.UID{"source", "other"},
			[]corev1.Pod{newSource(larger), newSource(other)}, true, false},
		"neither": {[]types.UID{"x"},
			[]corev1.Pod{newSource(larger), newSource(other)}, true, false},
		"it alone, and not listed": {[]types.UID{"x"}, []corev1.Pod{newSource(larger)},
			false, true},
		"a listed one that has gone": {[]types.UID{"source", "gone"},
			[]corev1.Pod{newSource(larger), newSource(other)}, false, true},
	} {
		in := input(newTarget(nil), newVMI())
		in.VMI.Status.ActivePods = map[types.UID]string{}
		for _, uid := range c.active {
			in.VMI.Status.ActivePods[uid] = "node-1"
		}
		in.Launchers = c.launchers
		out, err := Mutate(in)
		if _, refused := errors.AsType[*Refusal](err); refused != c.refused ||
			(out.Pod != nil) != c.resized {
			t.Errorf("%s: got %v, changed: %t", name, err, out.Pod != nil)
		}
	}
}

// Missing information prevents a migration only for a VM that may have been resized.
func TestUnknownSource(t *testing.T) {
	for name, c := range map[string]struct {
		annotations map[string]string
		refused     bool
	}{
		"cannot have been": {nil, false},
		"sidecar":          {map[string]string{api.InjectSidecarKey: "true"}, true},
		"one of its own":   {map[string]string{api.SidecarKey: "shim"}, true},
		"size":             {map[string]string{api.VCPUsKey: "2"}, true},
	} {
		in := input(newTarget(c.annotations), newVMI())
		in.LaunchersErr = errors.New("no answer")
		out, err := Mutate(in)
		if c.refused {
			if _, ok := errors.AsType[*Refusal](err); !ok ||
				!strings.Contains(err.Error(), "no answer") {
				t.Errorf("%s: got %v", name, err)
			}
		} else if err != nil || out.Pod != nil || len(out.Warnings) != 1 ||
			!strings.Contains(out.Warnings[0], "no answer") {
			t.Errorf("%s: got %v, %q", name, err, out.Warnings)
		}
	}
}

// The only source of a resized VM is about to end. A target from another cluster has no source, and
// no node.
func TestResizedTargetWithoutASource(t *testing.T) {
	for node, refused := range map[string]bool{"node-1": true, "": false} {
		in := input(marked(newTarget(nil)), newVMI())
		in.VMI.Status.NodeName = node
		ending := newSource(resizedTo(resources("400m", "4Gi", "4", "5Gi")))
		ending.DeletionTimestamp, ending.Spec.NodeName = &metav1.Time{}, node
		in.Launchers = []corev1.Pod{ending}
		_, err := Mutate(in)
		if _, ok := errors.AsType[*Refusal](err); ok != refused {
			t.Errorf("node %q: got %v, want a refusal: %t", node, err, refused)
		}
	}
}

// A launcher that is no target ignores other pods.
func TestNoTarget(t *testing.T) {
	in := input(newPod(nil), newVMI())
	in.Launchers = []corev1.Pod{newSource(resizedTo(resources("400m", "4Gi", "4", "5Gi")))}
	if pod := mutated(t, in); pod != in.Pod {
		t.Errorf("got %s", asJSON(t, pod))
	}
}

// A resized VM never gets an unchanged target.
func TestTargetThatCannotBeSized(t *testing.T) {
	larger := newSource(resizedTo(resources("400m", "4Gi", "4", "5Gi")))
	for name, c := range map[string]struct {
		pod     *corev1.Pod
		source  corev1.Pod
		refused bool
	}{
		"a resized VM's": {newTarget(map[string]string{api.ValueKey: "x"}), larger, true},
		"another VM's": {newTarget(map[string]string{api.ValueKey: "x"}),
			newSource(), false},
		"of no migration":       {newPod(map[string]string{api.ValueKey: "x"}), larger, false},
		"no launcher container": {newTarget(map[string]string{api.LauncherKey: "x"}), larger, true},
	} {
		in := input(c.pod, newVMI())
		in.Launchers = []corev1.Pod{c.source}
		out, err := Mutate(in)
		if refusal, ok := errors.AsType[*Refusal](err); ok != c.refused || ok &&
			!strings.Contains(refusal.Why, "the target cannot get the size of a VM resized in place: ") ||
			len(out.Warnings) > 0 == ok {
			t.Errorf("%s: got %v, %q", name, err, out.Warnings)
		}
	}
}
