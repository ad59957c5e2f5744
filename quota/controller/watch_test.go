package controller

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
)

// TestKubeVirtReachesReservations: a change of KubeVirt's settings reaches each namespace with
// reservations, once.
func TestKubeVirtReachesReservations(t *testing.T) {
	w := newWorld(t)
	for _, of := range []struct{ namespace, name string }{
		{"a", "one"}, {"a", "two"}, {"b", "three"},
	} {
		r := &v1alpha1.MigrationReservation{}
		r.Namespace, r.Name = of.namespace, of.name
		w.create(t, r)
	}
	var names []string
	for _, request := range reservedNamespaces(w.api)(t.Context(), &kubevirtv1.KubeVirt{}) {
		names = append(names, request.Name)
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"a", "b"}) {
		t.Errorf("namespaces %v, want a and b", names)
	}
}

// TestLabelIsWatched: the controller restores the label of a namespace that another client removed.
func TestLabelIsWatched(t *testing.T) {
	labelled, bare := &corev1.Namespace{}, &corev1.Namespace{}
	labelled.Labels = map[string]string{quota.ReservedLabel: "true"}
	if !namespaceRelevant(labelled, bare) {
		t.Error("the removal of the label is ignored")
	}
	other := labelled.DeepCopy()
	other.Labels["example.com/team"] = "a"
	if namespaceRelevant(labelled, other) {
		t.Error("another label is not ignored")
	}
}
