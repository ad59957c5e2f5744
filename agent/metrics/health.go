package metrics

import (
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
)

// Check is one condition of readiness. Ready returns nil, or the reason against readiness.
// Requests call it concurrently. It must answer from memory.
type Check struct {
	Name  string
	Ready func() error
}

// Endpoints are the contents of the side port.
type Endpoints struct {
	Metrics http.Handler
	Checks  []Check
	// Profiler adds /debug/pprof. It reveals memory and costs time. Set it only for loopback
	// addresses, see [IsLoopback].
	Profiler bool
}

// Handler serves /healthz, /readyz, /metrics and optionally /debug/pprof. /healthz answers while
// the process runs. /readyz succeeds if every check passes, and lists the failed checks with their
// reasons.
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
	// A write error means that the reader has disconnected.
	_, _ = w.Write([]byte(body))
}

// IsLoopback reports whether only the node itself can reach a listener's address.
func IsLoopback(addr net.Addr) bool {
	tcp, ok := addr.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
