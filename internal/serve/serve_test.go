package serve

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
)

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestUntil(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(asked)
		<-answer
		_, _ = io.WriteString(w, "late but whole")
	})}
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	l := listen(t)
	go func() { stopped <- Until(ctx, server, l) }()

	body := make(chan string, 1)
	go func() { body <- get(t, "http://"+l.Addr().String()) }()
	<-asked
	cancel()
	close(answer)
	if got := <-body; got != "late but whole" {
		t.Errorf("the running request got %q", got)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if conn, err := net.Dial("tcp", l.Addr().String()); err == nil {
		conn.Close()
		t.Error("still listening")
	}
}

func get(t *testing.T, url string) string {
	response, err := http.Get(url)
	if err != nil {
		t.Error(err)
		return ""
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Error(err)
	}
	return string(body)
}

func TestUntilClosesRemainingConnections(t *testing.T) {
	asked := make(chan struct{})
	server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
	})}
	ctx, cancel := context.WithCancel(t.Context())
	stopped := make(chan error, 1)
	l := listen(t)
	go func() { stopped <- Until(ctx, server, l) }()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	<-asked
	cancel()
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

func TestUntilReportsFailure(t *testing.T) {
	l := listen(t)
	l.Close()
	if err := Until(t.Context(), &http.Server{}, l); err == nil {
		t.Error("no error from a closed listener")
	}
}
