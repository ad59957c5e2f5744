package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group and Version name the API of these types.
const (
	Group   = "mooring.dev"
	Version = "v1alpha1"
)

// GroupVersion is the apiVersion of the objects of this package.
func GroupVersion() schema.GroupVersion {
	return schema.GroupVersion{Group: Group, Version: Version}
}

// AddToScheme adds the types of this package to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion(), &MigrationReservation{}, &MigrationReservationList{},
		&NodeState{}, &NodeStateList{}, &NodePolicy{}, &NodePolicyList{})
	metav1.AddToGroupVersion(s, GroupVersion())
	return nil
}
