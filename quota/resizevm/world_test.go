package resizevm

import (
	"encoding/json"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/memlock/kubevirt"
	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/estimate"
	"github.com/mooring-vm/mooring/quota/virt"
)

const gib = 1 << 30

func list(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

// shape is a kind of VM: the resources of its template, and those of its launcher.
type shape struct{ template, launcher corev1.ResourceRequirements }

func shapes() map[string]shape {
	return map[string]shape{
		"requests only": {launcher: corev1.ResourceRequirements{
			Requests: list("cpu", "200m", "memory", "1300Mi")}},
		"burstable": {
			template: corev1.ResourceRequirements{Requests: list("cpu", "500m", "memory", "1Gi"),
				Limits: list("cpu", "2", "memory", "2Gi")},
			launcher: corev1.ResourceRequirements{
				Requests: list("cpu", "500m", "memory", "1300Mi"),
				Limits:   list("cpu", "2", "memory", "2300Mi")},
		},
		"guaranteed": {
			template: corev1.ResourceRequirements{Requests: list("cpu", "2", "memory", "1Gi"),
				Limits: list("cpu", "2", "memory", "1Gi")},
			launcher: corev1.ResourceRequirements{Requests: list("cpu", "2", "memory", "1300Mi"),
				Limits: list("cpu", "2", "memory", "1300Mi")},
		},
	}
}

// world is a running VM that booted with 2 vCPUs and 1Gi, and can have 8 vCPUs and 8Gi.
type world struct {
	vm     *kubevirtv1.VirtualMachine
	vmi    *kubevirtv1.VirtualMachineInstance
	pod    *corev1.Pod
	hard   corev1.ResourceList // of the only quota
	report *v1alpha1.ResizeReport
	guest  v1alpha1.SizeReport
	starts int
	shape  shape
	peers  []*world // other VMs of the namespace
	broken bool     // its guest refuses each change
	away   bool     // see [Input].GiveWay

	staticCPUs bool // see [Input].StaticCPUs
}

func newWorld(s shape) *world { return newNamedWorld("db", s) }

func newNamedWorld(name string, s shape) *world {
	w := &world{shape: s, hard: list("requests.cpu", "64", "requests.memory", "64Gi",
		"limits.cpu", "64", "limits.memory", "64Gi")}
	w.vm = &kubevirtv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: name,
		UID: types.UID(name + "-vm-uid"), Annotations: map[string]string{}}}
	w.start()
	return w
}

// start gives the VM a new launcher.
func (w *world) start() {
	w.starts++
	guest, most := resource.MustParse("1Gi"), resource.MustParse("8Gi")
	w.vmi = &kubevirtv1.VirtualMachineInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "vms",
		Name: w.vm.Name, UID: types.UID(w.vm.Name + "-vmi-uid")}}
	w.vmi.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(w.vm, kubevirtv1.VirtualMachineGroupVersionKind)}
	w.vmi.Status.Phase = kubevirtv1.Running
	w.vmi.Spec.Domain = kubevirtv1.DomainSpec{
		CPU:    &kubevirtv1.CPU{Sockets: 2, Cores: 1, Threads: 1, MaxSockets: 8},
		Memory: &kubevirtv1.Memory{Guest: &guest, MaxGuest: &most},
		Resources: kubevirtv1.ResourceRequirements{
			Requests: w.shape.template.Requests.DeepCopy(),
			Limits:   w.shape.template.Limits.DeepCopy()},
	}
	r := *w.shape.launcher.DeepCopy()
	w.pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "virt-launcher-" +
		w.vm.Name, UID: types.UID(w.vm.Name + "-pod-" + string(rune('a'+w.starts%26))),
		Labels: map[string]string{kubevirtv1.AppLabel: "virt-launcher",
			kubevirtv1.CreatedByLabel: string(w.vmi.UID)},
		Annotations: map[string]string{
			api.SidecarKey: "mooring-shim",
			api.RenderedKey: api.Rendered{Requests: rendered(r.Requests),
				Limits: rendered(r.Limits)}.String(),
		}}}
	w.pod.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(w.vmi, kubevirtv1.VirtualMachineInstanceGroupVersionKind)}
	w.pod.Spec.Containers = []corev1.Container{{Name: compute, Image: "registry.test/launcher",
		Resources: r}}
	w.pod.Status.Phase, w.pod.Status.QOSClass = corev1.PodRunning, referenceClass(w.pod)
	w.accept()
	w.guest, w.report = v1alpha1.SizeReport{VCPUs: 2, Memory: gib}, nil
}

func rendered(l corev1.ResourceList) api.Amounts {
	var a api.Amounts
	if q, ok := l[corev1.ResourceCPU]; ok {
		a.CPU = new(q.MilliValue())
	}
	if q, ok := l[corev1.ResourceMemory]; ok {
		a.Memory = new(q.Value())
	}
	return a
}

// resources returns the resources of the launcher container.
func (w *world) resources() *corev1.ResourceRequirements {
	return &w.pod.Spec.Containers[0].Resources
}

// accept acts as a kubelet with room.
func (w *world) accept() {
	w.pod.Status.Conditions = nil
	w.pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: compute,
		AllocatedResources: w.resources().Requests.DeepCopy(),
		Resources:          w.resources().DeepCopy()}}
}

// deferResize acts as a kubelet without room.
func (w *world) deferResize() {
	w.pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending,
		Status: corev1.ConditionTrue, Reason: "Deferred", Message: "Node didn't have enough memory"}}
}

// follow acts as mooring-shim: it gives the guest the size of the pod's annotations.
func (w *world) follow() {
	size, err := api.ParseSize(w.pod.Annotations, compute)
	if err != nil || size == (api.Size{}) {
		return
	}
	wanted := &v1alpha1.SizeReport{VCPUs: size.VCPUs, Memory: int64(size.Memory)}
	if w.broken {
		w.report = &v1alpha1.ResizeReport{State: "Failed", Error: "the guest refuses",
			Wanted: wanted, Actual: new(w.guest)}
		return
	}
	limit, limited := w.resources().Limits[corev1.ResourceMemory]
	if limited && int64(size.Memory) > limit.Value() {
		w.report = &v1alpha1.ResizeReport{State: "Refused", Error: "the limit is too low",
			Wanted: wanted, Actual: new(w.guest)}
		return
	}
	if size.VCPUs != 0 {
		w.guest.VCPUs = size.VCPUs
	}
	if size.Memory != 0 {
		w.guest.Memory = int64(size.Memory)
	}
	w.report = &v1alpha1.ResizeReport{State: "Done", Wanted: wanted, Actual: new(w.guest)}
}

func (w *world) snapshot() quota.Snapshot {
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "vms", Name: "quota"}}
	q.Spec.Hard, q.Status.Hard, q.Status.Used = w.hard, w.hard, corev1.ResourceList{}
	pods := []*corev1.Pod{w.pod}
	for _, peer := range w.peers {
		pods = append(pods, peer.pod)
	}
	for _, pod := range pods {
		for name, more := range quota.Charge(pod) {
			if _, ok := w.hard[name]; ok {
				used := q.Status.Used[name]
				used.Add(more)
				q.Status.Used[name] = used
			}
		}
	}
	return quota.Snapshot{Namespace: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "vms"}},
		Quotas: []*corev1.ResourceQuota{q}, Pods: pods}
}

func cluster() virt.Cluster {
	version, err := kubevirt.ParseVersion("v1.7.0")
	if err != nil {
		panic(err)
	}
	return virt.Cluster{Version: version, Configuration: &kubevirtv1.KubeVirtConfiguration{}}
}

func (w *world) input() Input {
	in := Input{VM: w.vm, VMI: w.vmi, Pods: []*corev1.Pod{w.pod},
		Reports: map[string]v1alpha1.ResizeReport{}, GiveWay: w.away, StaticCPUs: w.staticCPUs}
	if w.report != nil {
		in.Reports[string(w.pod.UID)] = *w.report
	}
	in.Accounts, _ = quota.Accounts(w.snapshot(), quota.Options{})
	in.Estimate = w.estimate
	return in
}

// estimate remembers estimates of valid instances, which differ only in their domain.
func (w *world) estimate(vmi *kubevirtv1.VirtualMachineInstance) (estimate.Launcher, error) {
	key, err := json.Marshal(vmi.Spec.Domain)
	if err != nil {
		return estimate.Launcher{}, err
	}
	if known, ok := estimates.Load(string(key)); ok {
		return known.(estimate.Launcher), nil
	}
	l, err := estimate.Estimate(estimate.Input{VMI: vmi, Cluster: cluster(),
		Namespace: &corev1.Namespace{}})
	if err == nil {
		estimates.Store(string(key), l)
	}
	return l, err
}

var estimates sync.Map // of estimate.Launcher by domain

// tester is the common part of testing.T and rapid.T.
type tester interface {
	Helper()
	Fatal(args ...any)
	Errorf(format string, args ...any)
}

func (w *world) decide(t tester) Decision {
	t.Helper()
	d, err := Decide(w.input())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// apply acts as the API server.
func (w *world) apply(d Decision) {
	if d.Resources != nil {
		*w.resources() = *d.Resources.DeepCopy()
	}
	for key, value := range d.Annotations {
		if value == nil {
			delete(w.pod.Annotations, key)
			continue
		}
		w.pod.Annotations[key] = *value
	}
	delete(w.vm.Annotations, api.ResizeStatusKey)
	if d.Status != nil {
		w.vm.Annotations[api.ResizeStatusKey] = statusText(d.Status)
	}
}

// settle runs all parts without faults until the decision has no patch.
func (w *world) settle(t tester) *api.ResizeStatus {
	t.Helper()
	for range 8 {
		d := w.decide(t)
		if d.Resources == nil && len(d.Annotations) == 0 && (d.Status == nil ||
			d.Status.Reason != api.ResizeUnderWay) {
			return d.Status
		}
		w.apply(d)
		w.accept()
		w.follow()
	}
	t.Fatal("the resize does not end")
	return nil
}

// ask acts as the user, who removes all sizes but these.
func (w *world) ask(pairs ...string) {
	status, ok := w.vm.Annotations[api.ResizeStatusKey]
	w.vm.Annotations = map[string]string{}
	if ok {
		w.vm.Annotations[api.ResizeStatusKey] = status
	}
	for i := 0; i < len(pairs); i += 2 {
		w.vm.Annotations[pairs[i]] = pairs[i+1]
	}
}
