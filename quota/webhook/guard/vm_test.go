package guard_test

import (
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/quota/webhook/guard"
)

// vm needs two CPUs, and with the quotas here twice its memory and overhead.
func vm(strategy kubevirtv1.VirtualMachineRunStrategy, memory string) *kubevirtv1.VirtualMachine {
	v := &kubevirtv1.VirtualMachine{ObjectMeta: inVMs("web")}
	v.Spec.RunStrategy = &strategy
	v.Spec.Template = &kubevirtv1.VirtualMachineInstanceTemplateSpec{}
	v.Spec.Template.Spec.Domain = kubevirtv1.DomainSpec{
		CPU:    &kubevirtv1.CPU{Cores: 2},
		Memory: &kubevirtv1.Memory{Guest: new(resource.MustParse(memory))},
	}
	return v
}

func running(v *kubevirtv1.VirtualMachine) { v.Status.Created = true }

// actions are state change requests as sent by a VM's subresources.
func actions(all ...kubevirtv1.StateChangeRequestAction) func(*kubevirtv1.VirtualMachine) {
	return func(v *kubevirtv1.VirtualMachine) {
		for _, action := range all {
			v.Status.StateChangeRequests = append(v.Status.StateChangeRequests,
				kubevirtv1.VirtualMachineStateChangeRequest{Action: action})
		}
	}
}

func label(v *kubevirtv1.VirtualMachine) {
	v.Spec.Template.ObjectMeta.Labels = map[string]string{"a": "b"}
}

func rerun(v *kubevirtv1.VirtualMachine) {
	v.Status.RunStrategy = kubevirtv1.RunStrategyRerunOnFailure
}

const (
	always = kubevirtv1.RunStrategyAlways
	halted = kubevirtv1.RunStrategyHalted
	manual = kubevirtv1.RunStrategyManual
)

// large is refused by a quota with 8 GiB free.
func large() []string {
	return []string{"VirtualMachine web does not fit", "ResourceQuota default",
		"limits.memory: requested", "free 8Gi", "276Mi of its memory are the launcher's overhead",
		"2 times the request"}
}

// grown is large for a VM that should have been running before.
func grown() []string { return append(large(), "it grows by more than is free") }

func TestVMs(t *testing.T) {
	starts, stops := kubevirtv1.StartRequest, kubevirtv1.StopRequest
	for name, test := range map[string]struct {
		was, is     *kubevirtv1.VirtualMachine // was nil: created
		why         []string
		subresource string
	}{
		"made":        {nil, vm(always, "3Gi"), nil, ""},
		"made, large": {nil, vm(always, "4Gi"), large(), ""},
		"made, large, once": {nil, vm(kubevirtv1.RunStrategyOnce, "4Gi"),
			large(), ""},
		"made, large, rerun": {nil, vm(kubevirtv1.RunStrategyRerunOnFailure, "4Gi"),
			large(), ""},
		"made, large, halted": {nil, vm(halted, "4Gi"), nil, ""},
		"made, large, manual": {nil, vm(manual, "4Gi"), nil, ""},
		"made, large, deprecated": {nil,
			edit(vm(halted, "4Gi"), func(v *kubevirtv1.VirtualMachine) {
				v.Spec.RunStrategy, v.Spec.Running = nil, new(true)
			}), large(), ""},
		"two strategies are no VM": {nil,
			edit(vm(always, "4Gi"), func(v *kubevirtv1.VirtualMachine) {
				v.Spec.Running = new(true)
			}), nil, ""},
		"no template is no VM": {nil,
			edit(vm(always, "4Gi"), func(v *kubevirtv1.VirtualMachine) { v.Spec.Template = nil }),
			nil, ""},
		"started":                         {vm(halted, "3Gi"), vm(always, "3Gi"), nil, ""},
		"started, large":                  {vm(halted, "4Gi"), vm(always, "4Gi"), large(), ""},
		"stopped, large":                  {vm(always, "4Gi"), vm(halted, "4Gi"), nil, ""},
		"changed while halted":            {vm(halted, "1Gi"), vm(halted, "4Gi"), nil, ""},
		"changed while manual":            {vm(manual, "1Gi"), vm(manual, "4Gi"), nil, ""},
		"changed while it runs":           {vm(always, "1Gi"), vm(always, "6Gi"), grown(), ""},
		"changed a little":                {vm(always, "1Gi"), vm(always, "3Gi"), nil, ""},
		"changed, and did not fit before": {vm(always, "9Gi"), vm(always, "8Gi"), nil, ""},
		"metadata": {vm(always, "4Gi"),
			edit(vm(always, "4Gi"), func(v *kubevirtv1.VirtualMachine) {
				v.Labels = map[string]string{"a": "b"}
			}), nil, ""},
		"manual, changed, runs": {edit(vm(manual, "1Gi"), running),
			edit(vm(manual, "6Gi"), running), grown(), ""},
		"rerun, has been stopped": {edit(vm(kubevirtv1.RunStrategyRerunOnFailure, "1Gi"),
			rerun), edit(vm(kubevirtv1.RunStrategyRerunOnFailure, "4Gi"), rerun), nil, ""},
		"deleted with its finalizers": {vm(always, "1Gi"),
			edit(vm(always, "4Gi"), func(v *kubevirtv1.VirtualMachine) {
				v.DeletionTimestamp = ending().DeletionTimestamp
			}), nil, ""},
		"status: start": {vm(manual, "3Gi"), edit(vm(manual, "3Gi"), actions(starts)),
			nil, "status"},
		"status: start, large": {vm(manual, "4Gi"), edit(vm(manual, "4Gi"), actions(starts)),
			large(), "status"},
		"status: paused start, large": {vm(halted, "4Gi"), edit(vm(halted, "4Gi"), actions(starts)),
			large(), "status"},
		"status: restart, large": {vm(manual, "4Gi"),
			edit(vm(manual, "4Gi"), actions(stops, starts)), large(), "status"},
		"status: stop": {vm(always, "4Gi"), edit(vm(always, "4Gi"), actions(stops)),
			nil, "status"},
		"status: start was asked for": {edit(vm(manual, "4Gi"), actions(starts)),
			edit(edit(vm(manual, "4Gi"), actions(starts)), running), nil, "status"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, namespace(), quiet(), kubevirtObject())
			r := ask(t, admissionv1.Create, nil, test.is)
			if slices.Contains(test.why, "it grows by more than is free") {
				w = newWorld(t, namespace(), quiet(), kubevirtObject(),
					launcher("web", "2015m", "2600Mi"))
			}
			if test.was != nil {
				r = ask(t, admissionv1.Update, test.was, test.is)
			}
			r.SubResource = test.subresource
			want(t, guard.NewVM(w.guard).Handle(t.Context(), r), test.why...)
		})
	}
}

// TestRunningVMs: for a running VM only growth counts.
func TestRunningVMs(t *testing.T) {
	q := quiet()
	q.Status.Used = list("limits.cpu", "8", "limits.memory", "16Gi", "pods", "10")
	for name, test := range map[string]struct {
		was, is *kubevirtv1.VirtualMachine
		why     []string
	}{
		"restarted as it is": {vm(manual, "2Gi"),
			edit(vm(manual, "2Gi"), actions(kubevirtv1.StopRequest, kubevirtv1.StartRequest)), nil},
		"shrunk": {vm(always, "2Gi"), vm(always, "1Gi"), nil},
		// larger than its launcher, but unchanged
		"labelled": {vm(always, "4Gi"), edit(vm(always, "4Gi"), label), nil},
		"grown": {vm(always, "2Gi"), vm(always, "3Gi"),
			[]string{"it grows by", "limits.memory: requested"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, namespace(), q, kubevirtObject(), launcher("web", "2015m", "4992Mi"),
				launcher("other", "2", "9Gi"))
			r := ask(t, admissionv1.Update, test.was, test.is)
			if len(test.is.Status.StateChangeRequests) > 0 {
				r.SubResource = "status"
			}
			want(t, guard.NewVM(w.guard).Handle(t.Context(), r), test.why...)
		})
	}
}

// TestRestartOverTheQuota: a VM beyond its quota could not start again.
func TestRestartOverTheQuota(t *testing.T) {
	over := quiet()
	// 2Gi above the limit
	over.Status.Used = list("limits.cpu", "8", "limits.memory", "18Gi", "pods", "10")
	restarted := func(memory string) *kubevirtv1.VirtualMachine {
		return edit(vm(manual, memory), actions(kubevirtv1.StopRequest, kubevirtv1.StartRequest))
	}
	for name, test := range map[string]struct {
		was, is *kubevirtv1.VirtualMachine
		sub     string
		why     []string
	}{
		"as it is": {vm(manual, "2Gi"), restarted("2Gi"), "status",
			[]string{"VirtualMachine web could not start again", "free 2944Mi"}},
		"as small as is due": {vm(manual, "1Gi"), restarted("1Gi"), "status", nil},
		"stopped": {vm(manual, "2Gi"),
			edit(vm(manual, "2Gi"), actions(kubevirtv1.StopRequest)), "status", nil},
		"shrunk": {vm(always, "2Gi"), vm(always, "1Gi"), "", nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, namespace(), over, kubevirtObject(),
				launcher("web", "2015m", "4992Mi"), launcher("other", "2", "9Gi"))
			r := ask(t, admissionv1.Update, test.was, test.is)
			r.SubResource = test.sub
			want(t, guard.NewVM(w.guard).Handle(t.Context(), r), test.why...)
		})
	}
}

// TestEndedLaunchers: an ended launcher does not reduce a VM's growth.
func TestEndedLaunchers(t *testing.T) {
	ended := launcher("web", "2015m", "4992Mi")
	ended.Status.Phase = corev1.PodFailed
	w := newWorld(t, namespace(), quiet(), kubevirtObject(), ended)
	want(t, guard.NewVM(w.guard).Handle(t.Context(), ask(t, admissionv1.Update, vm(halted, "4Gi"),
		vm(always, "4Gi"))), large()...)
}

// TestReservedShare: neither reservations nor the maintenance share are free for VMs.
func TestReservedShare(t *testing.T) {
	half := namespace(shareKey, `{"limitsMemoryPercent":50}`)
	full := raised() // without the target pod: 12Gi are free in status.hard, 4Gi of them reserved
	for name, test := range map[string]struct {
		objects []client.Object
		size    string
		why     []string
	}{
		"fits beside": {[]client.Object{namespace(), full, reservation()}, "3Gi", nil},
		"would take of it": {[]client.Object{namespace(), full, reservation()}, "4Gi",
			[]string{"free 8Gi", "reserved for 1 migration"}},
		"would use a raise that is not lowered yet": {[]client.Object{namespace(), full}, "4Gi",
			[]string{"free 8Gi"}},
		"the migrations' half": {[]client.Object{half, quiet()}, "1Gi", []string{"free 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, append(test.objects, kubevirtObject())...)
			r := ask(t, admissionv1.Create, nil, vm(always, test.size))
			want(t, guard.NewVM(w.guard).Handle(t.Context(), r), test.why...)
		})
	}
}

// TestVMsWithoutLimits: KubeVirt generates limits for a quota of limits. Otherwise a VM's requests
// count.
func TestVMsWithoutLimits(t *testing.T) {
	limited := func(memory string) *kubevirtv1.VirtualMachine {
		return edit(vm(always, memory), func(v *kubevirtv1.VirtualMachine) {
			v.Spec.Template.Spec.Domain.Resources.Limits = list("cpu", "2", "memory", memory)
		})
	}
	bare := edit(vm(always, "1Gi"), func(v *kubevirtv1.VirtualMachine) {
		v.Spec.Template.Spec.Domain = kubevirtv1.DomainSpec{}
	})
	requests := edit(quiet(), func(q *corev1.ResourceQuota) {
		q.Spec.Hard = list("requests.memory", "16Gi")
		q.Status.Hard, q.Status.Used = q.Spec.Hard, list("requests.memory", "8Gi")
	})
	for name, test := range map[string]struct {
		quota *corev1.ResourceQuota
		vm    *kubevirtv1.VirtualMachine
		why   []string
	}{
		"without limits, twice 4Gi": {quiet(), vm(always, "4Gi"), large()},
		"with limits, 4Gi":          {quiet(), limited("4Gi"), nil},
		"with limits, 8Gi": {quiet(), limited("8Gi"),
			[]string{"limits.memory: requested", "free 8Gi"}},
		"no limit is wanted, 7Gi": {requests, vm(always, "7Gi"), nil},
		"no limit is wanted, 8Gi": {requests, vm(always, "8Gi"),
			[]string{"requests.memory: requested", "free 8Gi"}},
		"no memory in the spec": {quiet(), bare, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, namespace(), test.quota, kubevirtObject())
			want(t, guard.NewVM(w.guard).Handle(t.Context(),
				ask(t, admissionv1.Create, nil, test.vm)), test.why...)
		})
	}
}

// TestShim: the charge of a launcher includes mooring-shim.
func TestShim(t *testing.T) {
	plain := vm(always, "3790Mi") // its launcher leaves less than 64Mi free
	asks := edit(plain, func(v *kubevirtv1.VirtualMachine) {
		v.Spec.Template.ObjectMeta.Annotations = map[string]string{api.InjectSidecarKey: "true"}
	})
	for name, test := range map[string]struct {
		vm   *kubevirtv1.VirtualMachine
		ns   *corev1.Namespace
		shim bool
		why  []string
	}{
		"not requested": {plain, namespace(), true, nil},
		"the VM": {asks, namespace(), true,
			[]string{"limits.memory: requested 8254Mi, free 8Gi"}},
		"its namespace": {plain, namespace(api.InjectSidecarKey, "true"), true,
			[]string{"limits.memory: requested 8254Mi"}},
		"there is none here": {asks, namespace(), false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, test.ns, quiet(), kubevirtObject())
			w.guard.Shim = test.shim
			want(t, guard.NewVM(w.guard).Handle(t.Context(),
				ask(t, admissionv1.Create, nil, test.vm)), test.why...)
		})
	}
}

// TestOptedOut: the guard refuses no VM in an opted-out quota, with or without a share.
func TestOptedOut(t *testing.T) {
	out := edit(quiet(), optOut)
	for _, ns := range []*corev1.Namespace{namespace(),
		namespace(shareKey, `{"limitsCpuPercent":50,"limitsMemoryPercent":50}`)} {
		w := newWorld(t, ns, out, kubevirtObject())
		want(t, guard.NewVM(w.guard).Handle(t.Context(),
			ask(t, admissionv1.Create, nil, vm(always, "4Gi"))))
		r := ask(t, admissionv1.Create, nil, made("9Gi", ""))
		r.Namespace = "vms"
		want(t, guard.NewLauncher(w.guard).Handle(t.Context(), r))
	}
}

// TestVMsOfOthers: requests of exempt users, and of virt-controller for its launchers.
func TestVMsOfOthers(t *testing.T) {
	start := ask(t, admissionv1.Create, nil,
		edit(vm(always, "4Gi"), func(v *kubevirtv1.VirtualMachine) { v.Namespace = "" }))
	start.Namespace = "vms"
	h := guard.NewVM(newWorld(t, namespace(), quiet(), kubevirtObject()).guard)
	start.UserInfo.Username = virtController
	want(t, h.Handle(t.Context(), start))
	// starts VMs for users
	start.UserInfo.Username = "system:serviceaccount:kubevirt:kubevirt-apiserver"
	want(t, h.Handle(t.Context(), start), large()...)
	start.UserInfo.Username = own
	want(t, h.Handle(t.Context(), start))
	scale := ask(t, admissionv1.Update, vm(halted, "4Gi"), vm(always, "4Gi"))
	scale.SubResource = "scale"
	want(t, h.Handle(t.Context(), scale))
}

func TestNoQuotaNoQuestion(t *testing.T) {
	h := guard.NewVM(newWorld(t, namespace()).guard) // without a KubeVirt object
	want(t, h.Handle(t.Context(), ask(t, admissionv1.Create, nil, vm(always, "4Gi"))))
}

func TestVMOfAnUnknownKubeVirt(t *testing.T) {
	h := guard.NewVM(newWorld(t, namespace(), quiet()).guard)
	got := h.Handle(t.Context(), ask(t, admissionv1.Create, nil, vm(always, "4Gi")))
	if !got.Allowed || len(got.Warnings) != 1 {
		t.Errorf("got %+v: want one warning", got)
	}
}

// TestScopes: only quotas with scopes that include the launcher count.
func TestScopes(t *testing.T) {
	q := edit(quiet(), func(q *corev1.ResourceQuota) {
		q.Spec.ScopeSelector = &corev1.ScopeSelector{
			MatchExpressions: []corev1.ScopedResourceSelectorRequirement{
				{ScopeName: corev1.ResourceQuotaScopePriorityClass,
					Operator: corev1.ScopeSelectorOpIn, Values: []string{"high"}},
			}}
	})
	h := guard.NewVM(newWorld(t, namespace(), q, kubevirtObject()).guard)
	want(t, h.Handle(t.Context(), ask(t, admissionv1.Create, nil, vm(always, "4Gi"))))
	high := vm(always, "4Gi")
	high.Spec.Template.Spec.PriorityClassName = "high"
	want(t, h.Handle(t.Context(), ask(t, admissionv1.Create, nil, high)), large()...)
}
