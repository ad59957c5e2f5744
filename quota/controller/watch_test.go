package controller

import (
	"slices"
	"testing"

	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
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
