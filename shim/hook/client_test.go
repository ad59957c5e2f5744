package hook_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/mooring-vm/mooring/shim/headroom"
	"github.com/mooring-vm/mooring/shim/hook"
)

// client speaks KubeVirt's published protocol. It writes out method names and field numbers, so
// that it does not depend on the server's definition.
type client struct{ *grpc.ClientConn }

// message holds the fields of a message by number. The protocol has only strings, bytes, and lists
// and messages of them.
type message map[protowire.Number][]string

// wire encodes and decodes messages.
type wire struct{}

func (wire) Name() string { return "proto" }

func (wire) Marshal(v any) (out []byte, err error) {
	m, ok := v.(message)
	if !ok {
		return nil, fmt.Errorf("marshal %T", v)
	}
	for number, values := range m {
		for _, value := range values {
			out = protowire.AppendTag(out, number, protowire.BytesType)
			out = protowire.AppendString(out, value)
		}
	}
	return out, nil
}

func (wire) Unmarshal(data []byte, v any) error {
	m, ok := v.(message)
	if !ok {
		return fmt.Errorf("unmarshal %T", v)
	}
	for len(data) > 0 {
		number, kind, n := protowire.ConsumeTag(data)
		if n < 0 || kind != protowire.BytesType {
			return fmt.Errorf("field %d of type %d, %w", number, kind, protowire.ParseError(n))
		}
		value, size := protowire.ConsumeString(data[n:])
		if size < 0 {
			return protowire.ParseError(size)
		}
		m[number] = append(m[number], value)
		data = data[n+size:]
	}
	return nil
}

func (c client) call(ctx context.Context, method string, in message) (message, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	out := message{}
	err := c.Invoke(ctx, "/kubevirt.hooks."+method, in, out)
	return out, err
}

// define calls OnDefineDomain, and returns the domain XML.
func (c client) define(ctx context.Context, version, xml string) (string, error) {
	out, err := c.call(
		ctx, version+".Callbacks/OnDefineDomain",
		message{1: {xml}, 2: {`{"metadata":{"namespace":"vms","name":"db"}}`}},
	)
	if err != nil {
		return "", err
	}
	if len(out[1]) != 1 || len(out) != 1 {
		return "", errors.New("no domain XML")
	}
	return out[1][0], nil
}

func dial(t *testing.T, socket string) client {
	t.Helper()
	conn, err := grpc.NewClient(
		"unix:"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(wire{}), grpc.WaitForReady(true)),
		grpc.WithConnectParams(
			grpc.ConnectParams{
				Backoff: backoff.Config{
					BaseDelay:  time.Millisecond,
					Multiplier: 1.6,
					MaxDelay:   50 * time.Millisecond,
				},
				MinConnectTimeout: time.Minute,
			},
		),
	)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return client{conn}
}

// sidecar is a running sidecar.
type sidecar struct {
	client
	socket string
	done   chan error
	cancel context.CancelFunc
}

// wait waits until Serve has returned.
func (s *sidecar) wait(t *testing.T) error {
	t.Helper()
	select {
	case err := <-s.done:
		return err
	case <-time.After(time.Minute):
		t.Fatal("the sidecar does not end")
		return nil
	}
}

func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "hook") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return filepath.Join(dir, "a.sock")
}

func start(t *testing.T, c hook.Config) *sidecar {
	t.Helper()
	if c.Socket == "" {
		c.Socket = socketPath(t)
	}
	if c.Options == (headroom.Options{}) {
		c.Options = headroom.Options{Memory: 4096, CPUs: 8}
	}
	ctx, cancel := context.WithCancel(t.Context())
	s := &sidecar{
		client: dial(t, c.Socket),
		socket: c.Socket,
		done:   make(chan error, 1),
		cancel: cancel,
	}
	go func() { s.done <- hook.Serve(ctx, c) }()
	t.Cleanup(cancel)
	return s
}
