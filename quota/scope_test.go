package quota_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
)

func scoped(scopes ...corev1.ResourceQuotaScope) *corev1.ResourceQuota {
	q := hard(list("limits.cpu", "4"), nil)
	q.Spec.Scopes = scopes
	return q
}

func selected(
	scope corev1.ResourceQuotaScope, op corev1.ScopeSelectorOperator, values ...string,
) *corev1.ResourceQuota {
	q := hard(list("limits.cpu", "4"), nil)
	q.Spec.ScopeSelector = &corev1.ScopeSelector{
		MatchExpressions: []corev1.ScopedResourceSelectorRequirement{
			{ScopeName: scope, Operator: op, Values: values}}}
	return q
}

func TestFallsUnder(t *testing.T) {
	const class = corev1.ResourceQuotaScopePriorityClass
	plain := v1alpha1.ReservedPod{}
	high := v1alpha1.ReservedPod{PriorityClassName: "high"}
	all := v1alpha1.ReservedPod{BestEffort: true, Terminating: true, CrossNamespaceAffinity: true,
		PriorityClassName: "high"}
	for name, tt := range map[string]struct {
		quota            *corev1.ResourceQuota
		plain, high, all bool
	}{
		"no scope": {scoped(), true, true, true},
		"Terminating": {scoped(corev1.ResourceQuotaScopeTerminating), false,
			false, true},
		"NotTerminating": {scoped(corev1.ResourceQuotaScopeNotTerminating), true,
			true, false},
		"BestEffort": {scoped(corev1.ResourceQuotaScopeBestEffort), false,
			false, true},
		"NotBestEffort": {scoped(corev1.ResourceQuotaScopeNotBestEffort), true,
			true, false},
		"CrossNamespacePodAffinity": {scoped(corev1.ResourceQuotaScopeCrossNamespacePodAffinity),
			false, false, true},
		"PriorityClass": {scoped(class), false, true, true},
		"each has to hold": {scoped(class, corev1.ResourceQuotaScopeNotBestEffort), false,
			true, false},
		"an unknown scope": {scoped("Weekend"), false, false, false},
		"In": {selected(class, corev1.ScopeSelectorOpIn, "high", "low"), false,
			true, true},
		"In another":   {selected(class, corev1.ScopeSelectorOpIn, "low"), false, false, false},
		"NotIn":        {selected(class, corev1.ScopeSelectorOpNotIn, "high"), true, false, false},
		"Exists":       {selected(class, corev1.ScopeSelectorOpExists), false, true, true},
		"DoesNotExist": {selected(class, corev1.ScopeSelectorOpDoesNotExist), true, false, false},
		"operators count for PriorityClass alone": {
			selected(corev1.ResourceQuotaScopeBestEffort, corev1.ScopeSelectorOpDoesNotExist),
			false, false, true},
		"no resource charged to pods": {
			hard(list("services", "4", "requests.storage", "1Gi", "count/secrets", "3",
				"gold.storageclass.storage.k8s.io/requests.storage", "1Gi"), nil), false,
			false, false},
		"requests alone":   {hard(list("requests.cpu", "4"), nil), true, true, true},
		"pods alone":       {hard(list("count/pods", "4"), nil), true, true, true},
		"huge pages alone": {hard(list("requests.hugepages-1Gi", "4Gi"), nil), true, true, true},
		"GPUs alone":       {hard(list("requests.nvidia.com/gpu", "4"), nil), true, true, true},
		"a device class": {hard(list("requests.deviceclass.resource.kubernetes.io/gpu", "4"),
			nil), true, true, true},
		"limits of GPUs": {hard(list("limits.nvidia.com/gpu", "4"), nil), false, false, false},
		"no limit":       {hard(nil, nil), false, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, pod := range []struct {
				name string
				pod  v1alpha1.ReservedPod
				want bool
			}{{"plain", plain, tt.plain}, {"high", high, tt.high}, {"all", all, tt.all}} {
				if got, err := quota.FallsUnder(pod.pod, tt.quota); err != nil || got != pod.want {
					t.Errorf("%s: %v, %v; want %v", pod.name, got, err, pod.want)
				}
			}
		})
	}
}

func TestFallsUnderRefuses(t *testing.T) {
	for _, q := range []*corev1.ResourceQuota{
		selected(corev1.ResourceQuotaScopePriorityClass, "Near"),
		selected(corev1.ResourceQuotaScopePriorityClass, corev1.ScopeSelectorOpIn),
	} {
		_, err := quota.FallsUnder(v1alpha1.ReservedPod{}, q)
		if err == nil ||
			!strings.HasPrefix(err.Error(), "ResourceQuota quota: scope PriorityClass: ") {
			t.Errorf("%v: want an error that names quota and scope", err)
		}
	}
}

func TestReserveReadsScopeProperties(t *testing.T) {
	term := corev1.PodAffinityTerm{NamespaceSelector: &metav1.LabelSelector{}}
	near := of(corev1.Container{})
	near.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
			{PodAffinityTerm: term}}}}
	far := of(container("1", "1Gi"))
	far.Spec.ActiveDeadlineSeconds = new(int64(0))
	far.Spec.PriorityClassName = "high"
	whole := of(corev1.Container{})
	whole.Spec.Resources = &corev1.ResourceRequirements{Limits: list("cpu", "1")}
	known := of(container("1", "1Gi"))
	known.Status.QOSClass = corev1.PodQOSBestEffort
	helper := initially(of(corev1.Container{}), container("1", "1Gi"))
	for name, tt := range map[string]struct {
		pod  *corev1.Pod
		want v1alpha1.ReservedPod
	}{
		"best effort with affinity": {near,
			v1alpha1.ReservedPod{BestEffort: true, CrossNamespaceAffinity: true}},
		"deadline of no time, a class": {far,
			v1alpha1.ReservedPod{Terminating: true, PriorityClassName: "high"}},
		"resources of the whole pod":      {whole, v1alpha1.ReservedPod{}},
		"the class that the server found": {known, v1alpha1.ReservedPod{BestEffort: true}},
		"init containers count":           {helper, v1alpha1.ReservedPod{}},
	} {
		got := quota.Reserve("", tt.pod)
		got.Charge = nil
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
}
