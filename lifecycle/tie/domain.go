package tie

import "github.com/google/uuid"

// Domain is a domain of a node-level libvirt.
type Domain struct {
	Name string `json:"name"`
	UUID string `json:"uuid"`
	PID  int    `json:"pid"` // of its emulator, in the agent's pid namespace
}

// ParseDomainUUID returns the UUID that a launcher declares its domain by. What does not read
// as one to libvirt is a name.
func ParseDomainUUID(declared string) (id uuid.UUID, ok bool) {
	const plain, hyphened = 32, 36 // uuid.Parse knows other forms, which libvirt does not
	id, err := uuid.Parse(declared)
	return id, err == nil && (len(declared) == plain || len(declared) == hyphened)
}

// Matches reports whether a launcher that declares this means the domain. What reads as a
// UUID is never taken for a name.
func (d Domain) Matches(declared string) bool {
	if id, ok := ParseDomainUUID(declared); ok {
		own, err := uuid.Parse(d.UUID)
		return err == nil && id == own
	}
	return declared != "" && declared == d.Name
}
