// Package core replaces the API of KubeVirt's templates of VMs. No cluster of the tests has
// templates, and KubeVirt's informer for them needs a feature gate.
package core

// The names of the API.
const (
	GroupName            = "template.kubevirt.io"
	SingularResourceName = "virtualmachinetemplate"
	PluralResourceName   = SingularResourceName + "s"
)
