package tie

import (
	"github.com/google/uuid"

	"github.com/mooring-vm/mooring/api/agentapi"
)

// Domain is a domain of the node's libvirt.
type Domain struct {
	Name string `json:"name"`
	UUID string `json:"uuid"`
	PID  int    `json:"pid"` // of its emulator, in the agent's pid namespace

	Owner agentapi.PodRef `json:"owner,omitzero"` // in its metadata; zero: none
}

// ParseDomainUUID returns the UUID in a launcher's declaration of a domain. It returns false for a
// name. libvirt knows only two of the forms that [uuid.Parse] accepts; it takes the other
// forms as names.
func ParseDomainUUID(declared string) (id uuid.UUID, ok bool) {
	const plain, hyphened = 32, 36
	id, err := uuid.Parse(declared)
	return id, err == nil && (len(declared) == plain || len(declared) == hyphened)
}

// Matches reports whether a declaration means this domain. A declared UUID never matches a name.
func (d Domain) Matches(declared string) bool {
	if id, ok := ParseDomainUUID(declared); ok {
		own, err := uuid.Parse(d.UUID)
		return err == nil && id == own
	}
	return declared != "" && declared == d.Name
}

// MayMatch is Matches for a domain whose UUID may be unknown. It reports false only if the
// declaration means another domain.
func (d Domain) MayMatch(declared string) bool {
	_, isUUID := ParseDomainUUID(declared)
	return d.Matches(declared) || isUUID && d.UUID == ""
}
