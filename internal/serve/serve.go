// Package serve runs an HTTP server until the end of a context.
package serve

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"
)

// grace is the time for running requests to end.
const grace = time.Second

// Until serves on l until ctx ends. Then it gives running requests a second to end, and
// closes the remaining connections. It closes l. The error is nil unless serving failed.
func Until(ctx context.Context, server *http.Server, l net.Listener) error {
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve on %s: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	if server.Shutdown(bounded) == nil {
		return nil
	}
	if err := server.Close(); err != nil {
		return fmt.Errorf("stop serving on %s: %w", l.Addr(), err)
	}
	return nil
}
