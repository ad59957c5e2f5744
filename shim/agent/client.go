// Package agent asks the node's agent, over the socket in the pod's directory.
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

// Client asks an agent. The methods may be called from several goroutines at once, and
// block until the agent has answered, or their context is done.
//
// An agent that is away, or has just started and does not know the pod yet, is
// [resize.ErrAgent]. What it refuses is a [*RefusedError]: by its policy also
// [resize.ErrPolicy], and where a migration is under way [resize.ErrMigrating].
type Client struct {
	http http.Client

	requirement chan *podapi.MemoryRequirement // as it was told last; whoever has taken it tells the agent
}

// New returns a client for the agent at a socket, such as [podapi.Socket]. It does not
// connect yet.
func New(socket string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}
	transport := &http.Transport{DialContext: dial, MaxConnsPerHost: maxConnections, IdleConnTimeout: idleTimeout}
	c := &Client{http: http.Client{Transport: transport}, requirement: make(chan *podapi.MemoryRequirement, 1)}
	c.requirement <- nil
	return c
}

const (
	// maxConnections leaves some of those that the agent gives a pod to others in it.
	maxConnections = 5

	// idleTimeout is shorter than the agent's: it does not close what is about to be
	// used.
	idleTimeout = 30 * time.Second
)

// RefusedError is what the agent does not do.
type RefusedError struct {
	Code    string // one of podapi's
	Message string
}

func (e *RefusedError) Error() string { return "the agent refuses: " + e.Message }

// Is reports whether a migration, or the policy, is what keeps it from being done.
func (e *RefusedError) Is(target error) bool {
	switch e.Code {
	case podapi.CodeMigrating:
		return target == resize.ErrMigrating
	case podapi.CodeRefused:
		return target == resize.ErrPolicy
	}
	return false
}

// Look reads all that the agent shows.
func (c *Client) Observed(ctx context.Context) (podapi.Observed, error) {
	return ask[podapi.Observed](ctx, c, http.MethodGet, podapi.PathObserved, nil)
}

// Seen implements [resize.Node].
func (c *Client) Limits(ctx context.Context) (resize.Limits, error) {
	s, err := c.Observed(ctx)
	return resize.Limits{
		PodMax: uint64(s.PodMax), ContainerMax: uint64(s.ContainerMax),
		Lock: uint64(s.Lock), Locked: uint64(s.Locked), Floor: uint64(s.Floor), Available: uint64(s.Available),
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

// Need implements [resize.Node]. An agent that was away is told again once it is back,
// as long as somebody listens to [Client.Changed]. What is more than the largest limit is
// told as that.
func (c *Client) RequireMemory(ctx context.Context, bytes uint64) error {
	select {
	case <-c.requirement:
	case <-ctx.Done():
		return fmt.Errorf("tell the agent what the VM needs: %w", ctx.Err())
	}
	need := &podapi.MemoryRequirement{Bytes: amount(min(bytes, math.MaxInt64))}
	defer func() { c.requirement <- need }()
	return c.put(ctx, podapi.PathMemoryRequirement, need)
}

// Hold implements [resize.Node]. Parts of a second are rounded up.
func (c *Client) Hold(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		_, err := ask[json.RawMessage](ctx, c, http.MethodDelete, podapi.PathHold, nil)
		return err
	}
	return c.put(ctx, podapi.PathHold, podapi.Hold{Seconds: seconds(min(d, podapi.MaxHold))})
}

// Lease holds back what the agent would do to the pod's VM without the pod asking, for
// that long from now, at most [podapi.MaxLease]; 0 or less ends what it has held back
// so far. Parts of a second are rounded up.
func (c *Client) Lease(ctx context.Context, d time.Duration, reason string) error {
	if d <= 0 {
		_, err := ask[json.RawMessage](ctx, c, http.MethodDelete, podapi.PathLease, nil)
		return err
	}
	return c.put(ctx, podapi.PathLease, podapi.Lease{Seconds: seconds(min(d, podapi.MaxLease)), Reason: reason})
}

// seconds rounds up.
func seconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// Desired reads what the VM is asked to be.
func (c *Client) Desired(ctx context.Context) (podapi.Desired, error) {
	return ask[podapi.Desired](ctx, c, http.MethodGet, podapi.PathDesired, nil)
}

// Headroom reads how far the VM is to be able to grow, as the node policy has it. An agent
// that is older and knows nothing of it refuses with the code [podapi.CodeNotFound].
func (c *Client) Headroom(ctx context.Context) (podapi.Headroom, error) {
	return ask[podapi.Headroom](ctx, c, http.MethodGet, podapi.PathHeadroom, nil)
}

// Report tells how a resize fares.
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
func ask[T any](ctx context.Context, c *Client, method, path string, question []byte) (answer T, err error) {
	body, err := c.open(ctx, method, path, question)
	if err != nil {
		return answer, err
	}
	defer body.Close()
	if err := json.NewDecoder(io.LimitReader(body, podapi.MaxAnswer)).Decode(&answer); err != nil {
		return answer, away(ctx, err)
	}
	return answer, nil
}

func (c *Client) open(ctx context.Context, method, path string, question []byte) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://mooring-agent"+path, bytes.NewReader(question))
	if err != nil {
		return nil, fmt.Errorf("ask the agent: %w", err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, away(ctx, err)
	}
	if response.StatusCode != http.StatusOK {
		defer response.Body.Close()
		return nil, refusal(response)
	}
	return response.Body, nil
}

// away says that the agent did not answer.
func away(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("ask the agent: %w", ctx.Err())
	}
	return fmt.Errorf("%w: %w", resize.ErrAgent, err)
}

// refusal reads the agent's own words. One that does not know the pod yet is as good as
// away.
func refusal(response *http.Response) error {
	var answer podapi.Error
	err := json.NewDecoder(io.LimitReader(response.Body, podapi.MaxAnswer)).Decode(&answer)
	if err != nil || answer.Message == "" {
		answer.Message = fmt.Sprintf("%s, without a reason", response.Status)
	}
	refused := &RefusedError{Code: answer.Code, Message: answer.Message}
	if response.StatusCode == http.StatusServiceUnavailable || response.StatusCode == http.StatusTooManyRequests {
		return errors.Join(resize.ErrAgent, refused)
	}
	return refused
}
