// Package agent is a client of the agent on the socket in the pod's directory.
package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"time"

	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/resize"
)

var _ resize.Node = (*Client)(nil)

// Client is a client of the agent. Several goroutines may call the methods at once. A method blocks
// until the agent answers or its context ends.
//
// The error is [resize.ErrAgent] if the agent is away or does not know the pod yet. A refusal is a
// [*RefusedError]. It is also [resize.ErrPolicy] if the policy does not allow the request, and
// [resize.ErrMigrating] during a migration.
type Client struct {
	http http.Client

	// has the latest one; a sender takes it out while it sends
	requirement chan *podapi.MemoryRequirement
}

// New returns a client for the agent's socket, such as [podapi.Socket]. It does not connect yet.
func New(socket string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	transport := &http.Transport{DialContext: dial, MaxConnsPerHost: maxConnections,
		IdleConnTimeout: idleTimeout}
	c := &Client{http: http.Client{Transport: transport},
		requirement: make(chan *podapi.MemoryRequirement, 1)}
	c.requirement <- nil
	return c
}

const (
	// maxConnections leaves some of the pod's connections to other clients in the pod.
	maxConnections = 5

	// idleTimeout is shorter than the agent's, so the agent does not close a connection that the
	// client is about to use.
	idleTimeout = 30 * time.Second
)

// RefusedError is a refusal by the agent.
type RefusedError struct {
	Code    string // a code of package podapi
	Message string
}

func (e *RefusedError) Error() string { return "the agent refuses: " + e.Message }

// Is reports whether a migration or the policy is the cause of the refusal.
func (e *RefusedError) Is(target error) bool {
	switch e.Code {
	case podapi.CodeMigrating:
		return target == resize.ErrMigrating
	case podapi.CodeRefused:
		return target == resize.ErrPolicy
	}
	return false
}

// Observed reads the current state of the pod.
func (c *Client) Observed(ctx context.Context) (podapi.Observed, error) {
	return ask[podapi.Observed](ctx, c, http.MethodGet, podapi.PathObserved, nil)
}

// Limits implements [resize.Node].
func (c *Client) Limits(ctx context.Context) (resize.Limits, error) {
	s, err := c.Observed(ctx)
	start := ""
	if s.VM != 0 && s.VMStart != 0 {
		start = fmt.Sprintf("%d@%d", s.VM, s.VMStart)
	}
	return resize.Limits{
		PodMax: uint64(s.PodMax), ContainerMax: uint64(s.ContainerMax),
		Lock: uint64(s.Lock), Locked: uint64(s.Locked), Floor: uint64(s.Floor),
		Available: uint64(s.Available), Start: start,
	}, err
}

// RaiseLock implements [resize.Node].
func (c *Client) RaiseLock(ctx context.Context, bytes uint64) error {
	return c.put(ctx, podapi.PathLock, podapi.Lock{AtLeast: amount(bytes)})
}

// LowerLock implements [resize.Node].
func (c *Client) LowerLock(ctx context.Context, bytes uint64) error {
	return c.put(ctx, podapi.PathLock, podapi.Lock{AtMost: amount(bytes)})
}

// RequireMemory implements [resize.Node]. While [Client.Changed] runs, the client repeats the
// requirement to an agent that was away. A requirement above the highest limit becomes that limit.
func (c *Client) RequireMemory(ctx context.Context, bytes uint64) error {
	select {
	case <-c.requirement:
	case <-ctx.Done():
		return fmt.Errorf("send the VM's memory requirement: %w", ctx.Err())
	}
	need := &podapi.MemoryRequirement{Bytes: amount(min(bytes, math.MaxInt64))}
	defer func() { c.requirement <- need }()
	return c.put(ctx, podapi.PathMemoryRequirement, need)
}

// Hold implements [resize.Node]. It rounds up to whole seconds. An older agent reserves nothing.
func (c *Client) Hold(ctx context.Context, d time.Duration, growth uint64) error {
	if d <= 0 {
		_, err := ask[json.RawMessage](ctx, c, http.MethodDelete, podapi.PathHold, nil)
		return err
	}
	hold := podapi.Hold{Seconds: seconds(min(d, podapi.MaxHold)), Growth: podapi.Amount(growth)}
	err := c.put(ctx, podapi.PathHold, hold)
	refused, ok := errors.AsType[*RefusedError](err)
	if ok && refused.Code == podapi.CodeInvalid && growth > 0 { // it does not know the field
		hold.Growth = 0
		err = c.put(ctx, podapi.PathHold, hold)
	}
	return err
}

// Lease prevents the agent from stopping the pod's VM without a request of the pod, for d from now
// and at most [podapi.MaxLease]. 0 or less ends the pod's lease. Lease rounds up to whole seconds.
func (c *Client) Lease(ctx context.Context, d time.Duration, reason string) error {
	if d <= 0 {
		_, err := ask[json.RawMessage](ctx, c, http.MethodDelete, podapi.PathLease, nil)
		return err
	}
	return c.put(ctx, podapi.PathLease, podapi.Lease{Seconds: seconds(min(d, podapi.MaxLease)),
		Reason: reason})
}

// seconds rounds up to whole seconds.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// Desired reads the desired state of the VM.
func (c *Client) Desired(ctx context.Context) (podapi.Desired, error) {
	return ask[podapi.Desired](ctx, c, http.MethodGet, podapi.PathDesired, nil)
}

// Headroom reads the node policy's headroom. An older agent without headroom refuses with the code
// [podapi.CodeNotFound].
func (c *Client) Headroom(ctx context.Context) (podapi.Headroom, error) {
	return ask[podapi.Headroom](ctx, c, http.MethodGet, podapi.PathHeadroom, nil)
}

// Report sends a report of a resize.
func (c *Client) Report(ctx context.Context, report podapi.Report) error {
	return c.put(ctx, podapi.PathReport, report)
}

func amount(bytes uint64) *podapi.Amount {
	a := podapi.Amount(bytes)
	return &a
}

func (c *Client) put(ctx context.Context, path string, question any) error {
	body, err := json.Marshal(question)
	if err != nil {
		return fmt.Errorf("ask the agent: %w", err)
	}
	_, err = ask[json.RawMessage](ctx, c, http.MethodPut, path, body)
	return err
}

// ask sends a request and reads the answer.
func ask[T any](
	ctx context.Context, c *Client, method, path string, question []byte,
) (answer T, err error) {
	body, err := c.open(ctx, method, path, question)
	if err != nil {
		return answer, err
	}
	defer body.Close()
	if err := json.NewDecoder(io.LimitReader(body, podapi.MaxAnswer)).Decode(&answer); err != nil {
		return answer, unavailable(ctx, err)
	}
	return answer, nil
}

func (c *Client) open(
	ctx context.Context, method, path string, question []byte,
) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://mooring-agent"+path,
		bytes.NewReader(question))
	if err != nil {
		return nil, fmt.Errorf("ask the agent: %w", err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, unavailable(ctx, err)
	}
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		return nil, refusal(response)
	}
	return response.Body, nil
}

// away returns the error for an agent that did not answer.
func unavailable(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("ask the agent: %w", ctx.Err())
	}
	return fmt.Errorf("%w: %w", resize.ErrAgent, err)
}

// refusal reads the agent's refusal. An agent that does not know the pod yet counts as away.
func refusal(response *http.Response) error {
	var answer podapi.Error
	err := json.NewDecoder(io.LimitReader(response.Body, podapi.MaxAnswer)).Decode(&answer)
	if err != nil || answer.Message == "" {
		answer.Message = fmt.Sprintf("%s, without a reason", response.Status)
	}
	refused := &RefusedError{Code: answer.Code, Message: answer.Message}
	if response.StatusCode == http.StatusServiceUnavailable ||
		response.StatusCode == http.StatusTooManyRequests {
		return errors.Join(resize.ErrAgent, refused)
	}
	return refused
}
