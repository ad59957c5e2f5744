package kubevirtnode

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// inNode is a dialer to a server in the place of a pod.
type inNode struct{ server string }

func (d inNode) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	if address != "pod.example:443" {
		return nil, io.ErrUnexpectedEOF
	}
	return new(net.Dialer).DialContext(ctx, network, d.server)
}

func TestProxy(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "from the pod")
	}))
	defer server.Close()
	p, err := startProxy(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	p.connect(inNode{server.Listener.Addr().String()})

	for request, want := range map[string]string{
		"CONNECT pod.example:443 HTTP/1.1\r\nHost: pod.example:443\r\n\r\n" +
			"GET / HTTP/1.0\r\nHost: pod.example\r\n\r\n": "from the pod",
		"CONNECT other:443 HTTP/1.1\r\nHost: other:443\r\n\r\n": "502 Bad Gateway",
		"GET / HTTP/1.1\r\nHost: pod.example\r\n\r\n":           "400 Bad Request",
	} {
		conn, err := net.Dial("unix", p.socket)
		if err != nil {
			t.Fatal(err)
		}
		// As kube-apiserver, wait for the answer to CONNECT before sending more.
		first, second, _ := strings.Cut(request, "GET / HTTP/1.0")
		_, _ = io.WriteString(conn, first)
		answer := make([]byte, 1024)
		n, _ := conn.Read(answer)
		if second != "" {
			_, _ = io.WriteString(conn, "GET / HTTP/1.0"+second)
		}
		rest, _ := io.ReadAll(conn)
		if got := string(answer[:n]) + string(rest); !strings.Contains(got, want) {
			t.Errorf("%q: got %q, want %q in it", request, got, want)
		}
		_ = conn.Close()
	}
}
