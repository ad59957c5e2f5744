package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group and Version name the API that these types are served under.
const (
	Group   = "mooring.dev"
	Version = "v1alpha1"
)

// GroupVersion is what objects of this package carry as apiVersion.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: Group, Version: Version}
}

// AddToScheme teaches a scheme the types of this package.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion(), &MigrationReservation{}, &MigrationReservationList{})
	metav1.AddToGroupVersion(s, GroupVersion())
	return nil
}
