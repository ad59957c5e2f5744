package server

import (
	"io"
	"net"
	"strconv"

	"github.com/gliderlabs/ssh"
	gossh "golang.org/x/crypto/ssh"
)

// forwardTCP connects a channel to a port of the node (RFC 4254, section 7.2). The handler of the
// library closes both directions at the first end of stream.
func forwardTCP(_ *ssh.Server, _ *gossh.ServerConn, request gossh.NewChannel, ctx ssh.Context) {
	var to struct {
		Host       string
		Port       uint32
		OriginHost string
		OriginPort uint32
	}
	if err := gossh.Unmarshal(request.ExtraData(), &to); err != nil {
		_ = request.Reject(gossh.ConnectionFailed, "reading the address: "+err.Error())
		return
	}
	forward(ctx, request, "tcp", net.JoinHostPort(to.Host, strconv.Itoa(int(to.Port))))
}

// forwardUnix connects a channel to a Unix socket of the node, such as containerd's (OpenSSH's
// PROTOCOL, section 2.4).
func forwardUnix(_ *ssh.Server, _ *gossh.ServerConn, request gossh.NewChannel, ctx ssh.Context) {
	var to struct {
		Path     string
		Reserved string
		Port     uint32
	}
	if err := gossh.Unmarshal(request.ExtraData(), &to); err != nil {
		_ = request.Reject(gossh.ConnectionFailed, "reading the socket's path: "+err.Error())
		return
	}
	forward(ctx, request, "unix", to.Path)
}

func forward(ctx ssh.Context, request gossh.NewChannel, network, address string) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		_ = request.Reject(gossh.ConnectionFailed, err.Error())
		return
	}
	ch, requests, err := request.Accept()
	if err != nil {
		_ = conn.Close()
		return
	}
	go gossh.DiscardRequests(requests)
	go splice(ch, conn.(halfCloser))
}

// halfCloser is a *net.TCPConn or a *net.UnixConn.
type halfCloser interface {
	net.Conn
	CloseWrite() error
}

// splice copies in both directions. It forwards the end of each stream separately.
func splice(ch gossh.Channel, conn halfCloser) {
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = io.Copy(conn, ch)
		_ = conn.CloseWrite()
	}()
	_, _ = io.Copy(ch, conn)
	_ = ch.CloseWrite()
	<-sent
	_ = ch.Close()
	_ = conn.Close()
}
