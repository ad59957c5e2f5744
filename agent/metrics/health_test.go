package metrics

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestEndpoints(t *testing.T) {
	ready := Check{Name: "nri", Ready: func() error { return nil }}
	notReady := Check{Name: "pods",
		Ready: func() error { return errors.New("the first list has not arrived") }}
	served := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusOK,
			"metrics")
	})
	tests := map[string]struct {
		endpoints    Endpoints
		method, path string
		status       int
		body         string
	}{
		"alive": {Endpoints{Checks: []Check{notReady}}, "GET", "/healthz", 200, "ok\n"},
		"ready": {Endpoints{Checks: []Check{ready}}, "GET", "/readyz", 200,
			"[+]nri ok\n"},
		"not ready": {Endpoints{Checks: []Check{ready, notReady}}, "GET", "/readyz", 503,
			"[+]nri ok\n[-]pods failed: the first list has not arrived\n"},
		"metrics":          {Endpoints{}, "GET", "/metrics", 200, "metrics"},
		"no profiler":      {Endpoints{}, "GET", "/debug/pprof/", 404, "404 page not found\n"},
		"nothing to write": {Endpoints{}, "POST", "/healthz", 405, "Method Not Allowed\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.endpoints.Metrics = served
			w := httptest.NewRecorder()
			tt.endpoints.Handler().ServeHTTP(w,
				httptest.NewRequest(tt.method, tt.path, http.NoBody))
			if w.Code != tt.status || w.Body.String() != tt.body {
				t.Errorf("%s %s: %d %q, want %d %q", tt.method, tt.path, w.Code, w.Body,
					tt.status, tt.body)
			}
		})
	}
}

func TestProfiler(t *testing.T) {
	handler := Endpoints{Metrics: http.NotFoundHandler(), Profiler: true}.Handler()
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/symbol"} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
		if w.Code != http.StatusOK {
			t.Errorf("GET %s: %d", path, w.Code)
		}
	}
}

func TestIsLoopback(t *testing.T) {
	tests := []struct {
		addr net.Addr
		want bool
	}{
		{&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}, true},
		{&net.TCPAddr{IP: net.IPv6loopback}, true},
		{&net.TCPAddr{IP: net.IPv6unspecified}, false},
		{&net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}, false},
		{&net.UnixAddr{Name: "/s"}, false},
	}
	for _, tt := range tests {
		if got := IsLoopback(tt.addr); got != tt.want {
			t.Errorf("IsLoopback(%v) = %t, want %t", tt.addr, got, tt.want)
		}
	}
}
