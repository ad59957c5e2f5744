package channel_test

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
)

// proxy stands between client and node. It can fail as a node does.
type proxy struct {
	l      net.Listener
	muted  atomic.Bool
	inward atomic.Pointer[net.Conn]
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{l: l}
	t.Cleanup(func() { _ = l.Close() })
	go p.forward(to)
	return p
}

func (p *proxy) forward(to string) {
	client, err := p.l.Accept()
	if err != nil {
		return
	}
	node, err := net.Dial("tcp", to)
	if err != nil {
		_ = client.Close()
		return
	}
	p.inward.Store(&client)
	go func() { _, _ = io.Copy(node, client) }()
	buf := make([]byte, 1<<15)
	for {
		n, err := node.Read(buf)
		if err != nil {
			return
		}
		if !p.muted.Load() {
			_, _ = client.Write(buf[:n])
		}
	}
}

// cut breaks the connection, as a dying QEMU does.
func (p *proxy) cut() { _ = (*p.inward.Load()).Close() }

// mute swallows all answers, as a hanging node does.
func (p *proxy) mute() { p.muted.Store(true) }
