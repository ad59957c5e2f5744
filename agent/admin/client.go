package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"

	"github.com/mooring-vm/mooring/api/agentapi"
)

// ErrStreamEnded is the last error of [Client.Events] after the agent closed the stream.
var ErrStreamEnded = errors.New("the agent closed the event stream: it stops or restarts")

// maxAnswer bounds an answer in memory, in bytes.
const maxAnswer = 64 << 20

// Client sends requests to an agent. It is safe for concurrent use. Every call blocks on the
// socket, at most until its context ends.
type Client struct {
	socket string
	http   http.Client
}

// NewClient returns a client for the agent on this socket. It does not connect yet.
func NewClient(socket string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	return &Client{socket: socket, http: http.Client{Transport: &http.Transport{DialContext: dial}}}
}

// Launchers returns the launchers of the node, by namespace and name.
func (c *Client) Launchers(ctx context.Context) ([]agentapi.Launcher, error) {
	return get[[]agentapi.Launcher](ctx, c, agentapi.PathLaunchers)
}

// LaunchersOfPod returns the launchers of one pod. Without any, the error is a
// [*NotFoundError]. There can be several: of successive pods with the same name.
func (c *Client) LaunchersOfPod(ctx context.Context, namespace, name string) (
	[]agentapi.Launcher, error,
) {
	return get[[]agentapi.Launcher](ctx, c, pathOfPod(namespace, name))
}

// Lease sets or replaces the lease of a pod, and returns the launchers under the lease.
// Without any, the error is a [*NotFoundError].
func (c *Client) Lease(ctx context.Context, namespace, name string, request agentapi.LeaseRequest) (
	[]agentapi.Launcher, error,
) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("lease for pod %s/%s: %w", namespace, name, err)
	}
	return call[[]agentapi.Launcher](ctx, c, http.MethodPut,
		pathOfPod(namespace, name)+agentapi.SuffixLease, bytes.NewReader(body))
}

// EndLease ends the lease of a pod, if there is one, and returns the pod's launchers. Without
// any, the error is a [*NotFoundError].
func (c *Client) EndLease(ctx context.Context, namespace, name string) (
	[]agentapi.Launcher, error,
) {
	return call[[]agentapi.Launcher](ctx, c, http.MethodDelete,
		pathOfPod(namespace, name)+agentapi.SuffixLease, http.NoBody)
}

// Resize requests another size of a pod's VM. Without a running launcher, the error is a
// [*NotFoundError].
func (c *Client) Resize(ctx context.Context, namespace, name string,
	request agentapi.ResizeRequest) (agentapi.ResizeAnswer, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return agentapi.ResizeAnswer{}, fmt.Errorf("resize of pod %s/%s: %w", namespace, name, err)
	}
	return call[agentapi.ResizeAnswer](ctx, c, http.MethodPut,
		pathOfPod(namespace, name)+agentapi.SuffixResize, bytes.NewReader(body))
}

func pathOfPod(namespace, name string) string {
	return agentapi.PathLaunchers + "/" + url.PathEscape(namespace) + "/" + url.PathEscape(name)
}

// Node returns the state of the agent itself.
func (c *Client) Node(ctx context.Context) (agentapi.Node, error) {
	return get[agentapi.Node](ctx, c, agentapi.PathNode)
}

// Events yields the latest events and then new ones, until the caller stops, ctx ends or the stream
// ends. In the last two cases it yields the error once.
func (c *Client) Events(ctx context.Context) iter.Seq2[agentapi.Event, error] {
	return c.stream(ctx, agentapi.PathEvents)
}

// LatestEvents yields the latest events, and at their end [ErrStreamEnded].
func (c *Client) LatestEvents(ctx context.Context) iter.Seq2[agentapi.Event, error] {
	return c.stream(ctx, agentapi.PathEvents+"?"+agentapi.QueryLatest)
}

func (c *Client) stream(ctx context.Context, path string) iter.Seq2[agentapi.Event, error] {
	return func(yield func(agentapi.Event, error) bool) {
		body, err := c.open(ctx, http.MethodGet, path, http.NoBody)
		if err != nil {
			yield(agentapi.Event{}, err)
			return
		}
		defer body.Close()
		for decoder := json.NewDecoder(body); ; {
			event, err := nextEvent(ctx, decoder)
			if !yield(event, err) || err != nil {
				return
			}
		}
	}
}

func nextEvent(ctx context.Context, decoder *json.Decoder) (agentapi.Event, error) {
	var event agentapi.Event
	err := decoder.Decode(&event)
	switch {
	case ctx.Err() != nil:
		return event, ctx.Err()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return event, ErrStreamEnded
	case err != nil:
		return event, fmt.Errorf("read the event stream: %w", err)
	case event.Reason == ReasonCutOff:
		return event, fmt.Errorf("the agent cut the event stream off: %s", event.Message)
	}
	return event, nil
}

func get[T any](ctx context.Context, c *Client, path string) (T, error) {
	return call[T](ctx, c, http.MethodGet, path, http.NoBody)
}

func call[T any](ctx context.Context, c *Client, method, path string, requestBody io.Reader) (
	answer T, err error,
) {
	body, err := c.open(ctx, method, path, requestBody)
	if err != nil {
		return answer, err
	}
	defer body.Close()
	if err := json.NewDecoder(io.LimitReader(body, maxAnswer)).Decode(&answer); err != nil {
		return answer, fmt.Errorf("read the agent's answer to %s: %w", path, err)
	}
	return answer, nil
}

func (c *Client) open(ctx context.Context, method, path string, requestBody io.Reader) (
	io.ReadCloser, error,
) {
	request, err := http.NewRequestWithContext(ctx, method, "http://mooring-agent"+path,
		requestBody)
	if err != nil {
		return nil, fmt.Errorf("ask the agent: %w", err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, c.explain(err)
	}
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		return nil, responseError(response)
	}
	return response.Body, nil
}
