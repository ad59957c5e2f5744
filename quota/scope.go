package quota

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	podresource "k8s.io/component-helpers/resource"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// Reserve returns the reservation entry for a pod: its [Charge] and the properties checked by quota
// scopes.
func Reserve(role v1alpha1.PodRole, pod *corev1.Pod) v1alpha1.ReservedPod {
	return v1alpha1.ReservedPod{
		Role:       role,
		Charge:     Charge(pod),
		BestEffort: bestEffort(pod),
		Terminating: pod.Spec.ActiveDeadlineSeconds != nil &&
			*pod.Spec.ActiveDeadlineSeconds >= 0,
		PriorityClassName:      pod.Spec.PriorityClassName,
		CrossNamespaceAffinity: crossNamespaceAffinity(pod.Spec.Affinity),
	}
}

// FallsUnder reports whether a quota charges a pod: the pod is in every scope of the quota, and the
// quota has a resource charged for pods. It follows kube-apiserver: no pod is in an unknown scope,
// only PriorityClass uses operators, and an unknown operator is an error, because the API server
// then rejects every pod.
func FallsUnder(p v1alpha1.ReservedPod, q *corev1.ResourceQuota) (bool, error) {
	within := true
	for _, scope := range scopes(q) {
		in, err := inScope(p, scope)
		if err != nil {
			return false, fmt.Errorf("ResourceQuota %s: scope %s: %w", q.Name, scope.ScopeName, err)
		}
		within = within && in
	}
	if !within {
		return false, nil
	}
	for name := range q.Spec.Hard {
		if ChargedForPods(name) {
			return true, nil
		}
	}
	return false, nil
}

func scopes(q *corev1.ResourceQuota) []corev1.ScopedResourceSelectorRequirement {
	var all []corev1.ScopedResourceSelectorRequirement
	for _, name := range q.Spec.Scopes {
		all = append(all, corev1.ScopedResourceSelectorRequirement{ScopeName: name,
			Operator: corev1.ScopeSelectorOpExists})
	}
	if q.Spec.ScopeSelector != nil {
		all = append(all, q.Spec.ScopeSelector.MatchExpressions...)
	}
	return all
}

func inScope(p v1alpha1.ReservedPod, scope corev1.ScopedResourceSelectorRequirement) (bool, error) {
	switch scope.ScopeName {
	case corev1.ResourceQuotaScopeTerminating:
		return p.Terminating, nil
	case corev1.ResourceQuotaScopeNotTerminating:
		return !p.Terminating, nil
	case corev1.ResourceQuotaScopeBestEffort:
		return p.BestEffort, nil
	case corev1.ResourceQuotaScopeNotBestEffort:
		return !p.BestEffort, nil
	case corev1.ResourceQuotaScopePriorityClass:
		return inPriorityClass(p.PriorityClassName, scope)
	case corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return p.CrossNamespaceAffinity, nil
	}
	return false, nil
}

func inPriorityClass(name string, scope corev1.ScopedResourceSelectorRequirement) (bool, error) {
	var operator selection.Operator
	switch scope.Operator {
	case corev1.ScopeSelectorOpExists:
		return name != "", nil
	case corev1.ScopeSelectorOpDoesNotExist:
		operator = selection.DoesNotExist
	case corev1.ScopeSelectorOpIn:
		operator = selection.In
	case corev1.ScopeSelectorOpNotIn:
		operator = selection.NotIn
	default:
		return false, fmt.Errorf("operator %q: want In, NotIn, Exists or DoesNotExist",
			scope.Operator)
	}
	class, err := labels.NewRequirement(string(scope.ScopeName), operator, scope.Values)
	if err != nil {
		return false, err
	}
	has := labels.Set{}
	if name != "" {
		has[string(scope.ScopeName)] = name
	}
	return class.Matches(has), nil
}

// bestEffort reports whether a pod has QoS class BestEffort: no requests and limits of CPU or
// memory. Pod-level resources take precedence.
func bestEffort(pod *corev1.Pod) bool {
	if pod.Status.QOSClass != "" {
		return pod.Status.QOSClass == corev1.PodQOSBestEffort
	}
	if podresource.IsPodLevelResourcesSet(pod) {
		return noCPUOrMemory(*pod.Spec.Resources)
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			if !noCPUOrMemory(containers[i].Resources) {
				return false
			}
		}
	}
	return true
}

func noCPUOrMemory(r corev1.ResourceRequirements) bool {
	zero := func(q resource.Quantity) bool { return q.IsZero() }
	return zero(r.Requests[corev1.ResourceCPU]) && zero(r.Limits[corev1.ResourceCPU]) &&
		zero(r.Requests[corev1.ResourceMemory]) && zero(r.Limits[corev1.ResourceMemory])
}

func crossNamespaceAffinity(a *corev1.Affinity) bool {
	if a == nil {
		return false
	}
	var terms []corev1.PodAffinityTerm
	var weighted []corev1.WeightedPodAffinityTerm
	if a.PodAffinity != nil {
		terms = append(terms, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
		weighted = append(weighted,
			a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution...)
	}
	if a.PodAntiAffinity != nil {
		terms = append(terms, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
		weighted = append(weighted,
			a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution...)
	}
	for i := range weighted {
		terms = append(terms, weighted[i].PodAffinityTerm)
	}
	for i := range terms {
		if len(terms[i].Namespaces) > 0 || terms[i].NamespaceSelector != nil {
			return true
		}
	}
	return false
}
