package metrics

import (
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
)

// Check is one condition of readiness. Ready returns nil, or why not; it is
// called concurrently and must answer from memory.
type Check struct {
	Name  string
	Ready func() error
}

// Endpoints is what the side port serves.
type Endpoints struct {
	Metrics http.Handler
	Checks  []Check
	// Profiler adds /debug/pprof, which shows memory and costs time: for
	// ports that only the node itself reaches, see [IsLoopback].
	Profiler bool
}

// Handler serves /healthz (the process answers), /readyz (every check passes; the
// body says which do not and why), /metrics and, where wanted, /debug/pprof.
func (e Endpoints) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", e.Metrics)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		respond(w, http.StatusOK, "ok\n")
	})
	mux.HandleFunc("GET /readyz", e.readyz)
	if e.Profiler {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return mux
}

// readyz answers in the form of Kubernetes' own health endpoints.
func (e Endpoints) readyz(w http.ResponseWriter, _ *http.Request) {
	var body strings.Builder
	status := http.StatusOK
	for _, check := range e.Checks {
		if err := check.Ready(); err != nil {
			status = http.StatusServiceUnavailable
			fmt.Fprintf(&body, "[-]%s failed: %v\n", check.Name, err)
			continue
		}
		fmt.Fprintf(&body, "[+]%s ok\n", check.Name)
	}
	respond(w, status, body.String())
}

func respond(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	// A reader that went away needs no answer.
	_, _ = w.Write([]byte(body))
}

// IsLoopback reports whether only the node itself can reach addr, the address of
// a listener.
func IsLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
