package channel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

// ErrLost is the error of calls to a dead or silent node.
var ErrLost = errors.New("connection to the node lost")

// DefaultKeepalive is generous: on a busy machine, a node under TCG can stand still for a minute.
func DefaultKeepalive() Keepalive {
	return Keepalive{Every: 5 * time.Second, Timeout: 2 * time.Minute}
}

// Keepalive is the interval between keep-alive requests, and the time after which a silent
// node counts as lost.
type Keepalive struct{ Every, Timeout time.Duration }

// Client is a connection to a node. Its methods are safe for concurrent use. They return an error
// that wraps ErrLost after the connection has ended.
type Client struct {
	ssh  *ssh.Client
	done chan struct{}
	once sync.Once
	err  error
}

// Target is the address of a node and its keys.
type Target struct {
	Address string // host:port
	HostKey string // as in a known_hosts file: type and base64
	Key     ssh.Signer
	// Keepalive is DefaultKeepalive if zero.
	Keepalive Keepalive
	// ConnectTimeout bounds Connect. Zero means 2 minutes.
	ConnectTimeout time.Duration
}

const connectTimeout = 2 * time.Minute

// Connect returns a connection to the node at target. It fails after ConnectTimeout, and with ctx's
// cause when ctx ends.
func Connect(ctx context.Context, target Target) (*Client, error) {
	host, _, _, _, err := ssh.ParseAuthorizedKey([]byte(target.HostKey))
	if err != nil {
		return nil, fmt.Errorf("reading the node's host key: %w", err)
	}
	timeout := cmp.Or(target.ConnectTimeout, connectTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("no answer for %v", timeout))
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", target.Address)
	if err != nil {
		return nil, fmt.Errorf("dialling the node: %w", err)
	}
	c, err := handshake(ctx, conn, target, host)
	if err != nil {
		_ = conn.Close()
		return nil, fmt.Errorf("connecting to the node: %w", err)
	}
	client := &Client{ssh: c, done: make(chan struct{})}
	go client.watch()
	go client.keepalive(target.Keepalive)
	return client, nil
}

// handshake ends with ctx. QEMU accepts connections for a hung node and never answers.
func handshake(
	ctx context.Context, conn net.Conn, target Target, host ssh.PublicKey,
) (*ssh.Client, error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	c, channels, requests, err := ssh.NewClientConn(conn, target.Address, &ssh.ClientConfig{
		User:              "root",
		Auth:              []ssh.AuthMethod{ssh.PublicKeys(target.Key)},
		HostKeyCallback:   ssh.FixedHostKey(host),
		HostKeyAlgorithms: []string{host.Type()},
	})
	if !stop() {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	return ssh.NewClient(c, channels, requests), nil
}

// await returns the result of open, or ctx's cause if ctx ends first. It passes a late result to
// discard.
func await[T any](ctx context.Context, open func() (T, error), discard func(T)) (T, error) {
	type result struct {
		v   T
		err error
	}
	done := make(chan result, 1)
	go func() {
		v, err := open()
		done <- result{v, err}
	}()
	select {
	case r := <-done:
		return r.v, r.err
	case <-ctx.Done():
		go func() {
			if r := <-done; r.err == nil {
				discard(r.v)
			}
		}()
		var none T
		return none, context.Cause(ctx)
	}
}

// Done is closed when the connection has ended.
func (c *Client) Done() <-chan struct{} { return c.done }

// Close ends the connection and everything that uses it.
func (c *Client) Close() error {
	c.fail(net.ErrClosed)
	return nil
}

// fail keeps the first reason for the end of the connection.
func (c *Client) fail(err error) {
	c.once.Do(func() {
		c.err = fmt.Errorf("%w: %w", ErrLost, err)
		close(c.done)
		_ = c.ssh.Close()
	})
}

func (c *Client) watch() {
	err := c.ssh.Wait()
	if err == nil {
		err = net.ErrClosed
	}
	c.fail(err)
}

func (c *Client) keepalive(k Keepalive) {
	if k == (Keepalive{}) {
		k = DefaultKeepalive()
	}
	tick := time.NewTicker(k.Every)
	defer tick.Stop()
	for {
		select {
		case <-c.done:
			return
		case <-tick.C:
		}
		timer := time.AfterFunc(k.Timeout, func() {
			c.fail(fmt.Errorf("no answer for %v", k.Timeout))
		})
		_, _, err := c.ssh.SendRequest("keepalive@openssh.com", true, nil)
		timer.Stop()
		if err != nil {
			c.fail(err)
		}
	}
}

// lostDelay is the time by which a channel may end before its connection.
const lostDelay = time.Second

// lost returns the reason for the end of the connection instead of err, which only says that a
// channel was closed.
func (c *Client) lost(err error) error {
	var refused *ssh.OpenChannelError
	if err == nil || errors.As(err, &refused) {
		return err
	}
	select {
	case <-c.done:
		return c.err
	case <-time.After(lostDelay):
		return err
	}
}

// Dial connects to a socket of the node; network is "tcp" or "unix".
func (c *Client) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := c.ssh.DialContext(ctx, network, address)
	if err != nil {
		return nil, fmt.Errorf("dialling %s in the node: %w", address, c.lost(err))
	}
	return conn, nil
}

// Listen makes the node listen on one of its own TCP addresses, such as "127.0.0.1:6443", and
// accepts the connections here. The listener ends with Close, and with the connection to the node.
func (c *Client) Listen(address string) (net.Listener, error) {
	l, err := c.ssh.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listening on %s in the node: %w", address, c.lost(err))
	}
	return l, nil
}
