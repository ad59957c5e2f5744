package kubevirtnode

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"

	"github.com/mooring-vm/mooring/hack/throwaway/channel"
)

// dialer connects to addresses of a node and of its pods.
type dialer interface {
	Dial(ctx context.Context, network, address string) (net.Conn, error)
}

// proxy is an HTTP proxy into the network of a node, for kube-apiserver.
type proxy struct {
	socket   string
	listener net.Listener
	node     chan dialer // has the node once it is up
}

func startProxy(dir string) (*proxy, error) {
	p := &proxy{socket: filepath.Join(dir, "proxy.sock"), node: make(chan dialer, 1)}
	var err error
	if p.listener, err = net.Listen("unix", p.socket); err != nil {
		return nil, fmt.Errorf("starting the proxy into the node: %w", err)
	}
	go func() {
		for {
			conn, err := p.listener.Accept()
			if err != nil {
				return
			}
			go p.serve(conn)
		}
	}()
	return p, nil
}

// connect makes the proxy lead into this node.
func (p *proxy) connect(node dialer) { p.node <- node }

func (p *proxy) Close() error { return p.listener.Close() }

func (p *proxy) serve(conn net.Conn) {
	request, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil || request.Method != http.MethodConnect {
		answer(conn, http.StatusBadRequest)
		_ = conn.Close()
		return
	}
	node := <-p.node
	p.node <- node
	inside, err := node.Dial(context.Background(), "tcp", request.Host)
	if err != nil {
		answer(conn, http.StatusBadGateway)
		_ = conn.Close()
		return
	}
	answer(conn, http.StatusOK)
	channel.Join(conn, inside)
}

func answer(conn net.Conn, status int) {
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 %d %s\r\n\r\n", status, http.StatusText(status))
}
