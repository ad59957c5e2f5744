package admin

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/api/agentapi"
)

type fixedLaunchers []agentapi.Launcher

func (f fixedLaunchers) Launchers() []agentapi.Launcher { return slices.Clone(f) }

func launcher(namespace, name, uid string) agentapi.Launcher {
	return agentapi.Launcher{
		Pod:       agentapi.PodRef{Namespace: namespace, Name: name, UID: uid},
		Container: agentapi.ContainerRef{Name: "compute", ID: "id", PID: 4711},
		State:     agentapi.StateRunning,
		Settings: []agentapi.Setting{{Name: agentapi.MemlockSetting, Requested: "4Gi",
			Status: agentapi.StatusApplied}},
	}
}

func testServer(launchers ...agentapi.Launcher) *Server {
	return &Server{
		Launchers: fixedLaunchers(launchers),
		Node:      func() agentapi.Node { return agentapi.Node{Version: "v1", Mode: "enforce"} },
		Events:    NewRing(100, 100),
		Logger:    slog.New(slog.DiscardHandler),
	}
}

// startServer runs server until stop is called or the test ends, and returns a client.
func startServer(t *testing.T, server *Server) (client *Client, stop func()) {
	t.Helper()
	path := socketPath(t)
	l := mustListen(t, path)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(ctx, l); err != nil {
			t.Error(err)
		}
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return NewClient(path), stop
}

func TestLaunchers(t *testing.T) {
	a, b, c := launcher("ns-b", "vm", "1"), launcher("ns-a", "vm-2", "2"), launcher("ns-a", "vm-1",
		"3")
	client, _ := startServer(t, testServer(a, b, c))

	all, err := client.Launchers(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]agentapi.Launcher{c, b, a}, all); diff != "" {
		t.Errorf("all launchers (-want +got):\n%s", diff)
	}
	one, err := client.LaunchersOfPod(t.Context(), "ns-a", "vm-2")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]agentapi.Launcher{b}, one); diff != "" {
		t.Errorf("launchers of one pod (-want +got):\n%s", diff)
	}
}

func TestNode(t *testing.T) {
	client, _ := startServer(t, testServer())
	node, err := client.Node(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(agentapi.Node{Version: "v1", Mode: "enforce"}, node); diff != "" {
		t.Errorf("node (-want +got):\n%s", diff)
	}
}

func TestNotFound(t *testing.T) {
	client, _ := startServer(t, testServer())
	_, err := client.LaunchersOfPod(t.Context(), "ns", "../node")
	if _, ok := errors.AsType[*NotFoundError](err); !ok {
		t.Fatalf("error %v, want a NotFoundError", err)
	}
	if want := "pod ns/../node has no launcher on this node"; err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
}

func TestRoutes(t *testing.T) {
	tests := []struct {
		method, path string
		status       int
		body         string
	}{
		{http.MethodGet, agentapi.PathLaunchers, http.StatusOK, "[]\n"},
		{http.MethodPost, agentapi.PathLaunchers, http.StatusNotFound, "no such resource: POST"},
		{http.MethodGet, "/v2/launchers", http.StatusNotFound, agentapi.PathNode},
		{http.MethodGet, agentapi.PathLaunchers + "/ns/vm", http.StatusNotFound, "pod ns/vm"},
		{http.MethodGet, agentapi.PathLaunchers + "/ns/vm/lease", http.StatusNotFound,
			"PUT or DELETE"},
	}
	handler := testServer().Handler()
	for _, tt := range tests {
		t.Run(tt.method+tt.path, func(t *testing.T) {
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, httptest.NewRequest(tt.method, tt.path, http.NoBody))
			if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.body) {
				t.Errorf("%d %q, want %d with %q", w.Code, w.Body, tt.status, tt.body)
			}
			if got := w.Header().Get("Content-Type"); got != "application/json" {
				t.Errorf("content type %q", got)
			}
		})
	}
}

func TestServeEndsWhenItsListenerFails(t *testing.T) {
	l := mustListen(t, socketPath(t))
	l.Close()
	if err := testServer().Serve(t.Context(), l); err == nil {
		t.Error("no error")
	}
}

// The client sends half a request.
func TestServeDoesNotWaitForever(t *testing.T) {
	client, stop := startServer(t, testServer())
	conn, err := net.Dial("unix", client.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("GET / HTTP/1.1\r\n")); err != nil {
		t.Fatal(err)
	}
	stop()
	if err := conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("half a request got an answer")
	}
}
