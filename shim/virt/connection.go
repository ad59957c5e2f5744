package virt

import "context"

// Connection is a connection to libvirt. After a loss it reconnects by itself. Calls return
// [ErrConnection] until the connection is back.
//
// All methods are safe for concurrent use.
type Connection interface {
	// Domain finds a domain by UUID or by name. A match by UUID wins. The error is [ErrNoDomain] if
	// there is none.
	Domain(ctx context.Context, nameOrUUID string) (Domain, error)

	// Domains returns all domains, inactive ones included.
	Domains(ctx context.Context) ([]Domain, error)

	// Changed returns a channel that receives after every possible change of the domains, such as a
	// start, and after each loss and return of the connection. It is closed when ctx ends.
	Changed(ctx context.Context) <-chan struct{}

	// Close ends the connection. Later calls return [ErrConnection], and the channels of Changed
	// are closed.
	Close() error
}
