package virt

import "context"

// Connection is a connection to a hypervisor's manager. It is opened again by itself
// when it is lost; calls return [ErrConnection] until it is.
//
// All methods may be called from several goroutines at once.
type Connection interface {
	// Domain finds a domain by its UUID or its name; a UUID goes first. The error is
	// [ErrNoDomain] if there is none.
	Domain(ctx context.Context, nameOrUUID string) (Domain, error)

	// Domains returns all domains, those that do not run too.
	Domains(ctx context.Context) ([]Domain, error)

	// Close ends the connection and all that uses it. Calls return [ErrConnection]
	// from then on, and the channels of Changed are closed.
	Close() error
}
