package agent

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/mooring-vm/mooring/agent/admin"
)

// listeners are the agent's own socket, its TCP port for metrics, and the socket for node hooks.
// The last two may be nil.
type listeners struct {
	socket, side, hooks net.Listener
}

func listenOn(ctx context.Context, socket, side string) (listeners, error) {
	var l listeners
	var err error
	if l.socket, err = admin.Listen(ctx, socket); err != nil {
		return listeners{}, err
	}
	if side == "" {
		return l, nil
	}
	if l.side, err = new(net.ListenConfig).Listen(ctx, "tcp", side); err != nil {
		return listeners{}, errors.Join(fmt.Errorf("--listen %q: %w", side, err), l.socket.Close())
	}
	return l, nil
}

func (l listeners) close() error {
	var errs []error
	for _, each := range []net.Listener{l.socket, l.side, l.hooks} {
		if each != nil {
			errs = append(errs, each.Close())
		}
	}
	return errors.Join(errs...)
}
