package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/mooring-vm/mooring/integration/node"
)

// sidePort is the agent's default address for health checks and metrics.
const sidePort = "127.0.0.1:9808"

// Timeouts for a busy machine: of the agent's start, and of one answer.
const (
	readyTimeout  = 3 * time.Minute
	answerTimeout = 3 * time.Minute
)

// ErrNotFound means that the agent answered with status 404.
var ErrNotFound = errors.New("not found")

// Metrics returns the agent's metrics in text form.
func (a *Agent) Metrics(ctx context.Context) (string, error) {
	b, err := a.httpGet(ctx, "tcp", sidePort, "/metrics")
	return string(b), err
}

// Ready returns nil if the agent reports readiness, else an error with the agent's reasons.
func (a *Agent) Ready(ctx context.Context) error {
	_, err := a.httpGet(ctx, "tcp", sidePort, "/readyz")
	return err
}

// WaitReady waits until the agent is ready, at most for readyTimeout. It returns at once if
// the node is lost.
func (a *Agent) WaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		err := a.Ready(ctx)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, node.ErrLost):
			return fmt.Errorf("waiting for the agent: %w", err)
		}
		select {
		case <-a.node.Done():
		case <-ctx.Done():
			return fmt.Errorf("waiting for the agent: %w", err)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (a *Agent) httpGet(ctx context.Context, network, address, path string) ([]byte, error) {
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return a.node.Dial(ctx, network, address)
		},
	}
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://agent"+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := (&http.Client{Transport: transport, Timeout: answerTimeout}).Do(request)
	if err != nil {
		return nil, fmt.Errorf("asking the agent: %w", err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	switch {
	case err != nil:
		return nil, fmt.Errorf("asking the agent: %w", err)
	case response.StatusCode == http.StatusNotFound:
		return nil, fmt.Errorf("asking the agent for %s: %w", path, ErrNotFound)
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("asking the agent for %s: %s: %s", path, response.Status, body)
	}
	return body, nil
}

// Healthy returns nil if the agent's health check succeeds.
func (a *Agent) Healthy(ctx context.Context) error {
	_, err := a.httpGet(ctx, "tcp", sidePort, "/healthz")
	return err
}
