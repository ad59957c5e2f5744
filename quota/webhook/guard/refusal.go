package guard

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
)

// maxNamed is the maximum number of migrations in a message.
const maxNamed = 10

// refuseReserved refuses a change that is impossible during reservations.
func refuseReserved(what string, holders []*v1alpha1.MigrationReservation) error {
	they := "they have ended, or abort them"
	if len(holders) == 1 {
		they = "it has ended, or abort it"
	}
	return refuse("%s while quota is reserved for %s. Wait until %s (kubectl delete vmim NAME), "+
		"and try again",
		what, migrationNames(holders), they)
}

// blocking returns the reservations that must end before an edit.
func blocking(all []*v1alpha1.MigrationReservation) []*v1alpha1.MigrationReservation {
	var holders []*v1alpha1.MigrationReservation
	for _, r := range all {
		if quota.BlocksEdits(r) {
			holders = append(holders, r)
		}
	}
	return holders
}

// migrationNames lists migrations and their VMs.
func migrationNames(holders []*v1alpha1.MigrationReservation) string {
	var names []string
	for i, r := range holders {
		if i == maxNamed {
			names = append(names, fmt.Sprintf("%d more", len(holders)-i))
			break
		}
		names = append(names, fmt.Sprintf("%s of VM %s", r.Spec.Migration.Name, r.Spec.VMI.Name))
	}
	if len(holders) == 1 {
		return "live migration " + names[0]
	}
	return "live migrations " + strings.Join(names, ", ")
}

func sorted(list corev1.ResourceList) []corev1.ResourceName {
	return slices.Sorted(maps.Keys(list))
}
