package api

import (
	"fmt"
	"regexp"
	"strings"
)

// OwnerNamespace is the XML namespace of the element "owner" in a domain's metadata. Its attributes
// namespace, name and uid name the pod that owns the VM: see [Owner].
const OwnerNamespace = "https://mooring.dev/domain"

// Owner is the pod that owns a VM of the node's libvirt.
type Owner struct{ Namespace, Name, UID string }

var (
	ownerName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)
	ownerUID  = regexp.MustCompile(`^[A-Za-z0-9][-A-Za-z0-9]{0,63}$`)
)

// ParseOwner reads NAMESPACE/NAME/UID.
func ParseOwner(text string) (Owner, error) {
	fields := strings.Split(text, "/")
	if len(fields) != 3 {
		return Owner{}, fmt.Errorf("owner %q: want NAMESPACE/NAME/UID of a pod", text)
	}
	o := Owner{Namespace: fields[0], Name: fields[1], UID: fields[2]}
	return o, o.Check()
}

// Check returns an error unless a pod can have these fields.
func (o Owner) Check() error {
	switch {
	case !ownerName.MatchString(o.Namespace):
		return fmt.Errorf("owner: namespace %q: want the namespace of a pod", o.Namespace)
	case !ownerName.MatchString(o.Name):
		return fmt.Errorf("owner: name %q: want the name of a pod", o.Name)
	case !ownerUID.MatchString(o.UID):
		return fmt.Errorf("owner: UID %q: want the UID of a pod, at most 64 letters, digits and "+
			"hyphens", o.UID)
	}
	return nil
}
