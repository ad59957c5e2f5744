package channel_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/mooring-vm/mooring/hack/throwaway/channel"
)

// The listener does not answer, as QEMU for a hung node.
func TestConnectToASilentNode(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	host := string(ssh.MarshalAuthorizedKey(newKey(t).PublicKey()))
	target := channel.Target{Address: l.Addr().String(), HostKey: host, Key: newKey(t),
		ConnectTimeout: 50 * time.Millisecond}
	failed := make(chan error, 1)
	go func() {
		_, err := channel.Connect(context.Background(), target)
		failed <- err
	}()
	select {
	case err := <-failed:
		if err == nil || !strings.Contains(err.Error(), "no answer for 50ms") {
			t.Errorf("got %v, want that there is no answer", err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("Connect hangs")
	}
}

// The node falls silent before the call.
func TestCallsToASilentNodeEndWithTheContext(t *testing.T) {
	target := serve(t)
	p := newProxy(t, target.Address)
	target.Address = p.l.Addr().String()
	c := connect(t, target)
	if _, err := c.Output(t.Context(), "true"); err != nil {
		t.Fatal(err)
	}
	p.mute()
	enough := errors.New("enough")
	for name, call := range map[string]func(context.Context) error{
		"run": func(ctx context.Context) error {
			return c.Run(ctx, channel.Command{Args: []string{"true"}})
		},
		"pull": func(ctx context.Context) error {
			return c.Pull(ctx, "/etc/hostname", t.TempDir()+"/f")
		},
	} {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, enough)
		failed := make(chan error, 1)
		go func() { failed <- call(ctx) }()
		select {
		case err := <-failed:
			if !errors.Is(err, enough) {
				t.Errorf("%s: got %v, want the context's cause", name, err)
			}
		case <-time.After(20 * time.Second):
			t.Errorf("%s hangs", name)
		}
		cancel()
	}
}
