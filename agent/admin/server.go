package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/internal/serve"
)

const (
	readTimeout = 5 * time.Second

	// onePod is the path of a pod's launchers.
	onePod = agentapi.PathLaunchers + "/{namespace}/{pod}"
)

// Launchers lists the launchers of the node. The caller owns the slice.
type Launchers interface {
	Launchers() []agentapi.Launcher
}

// Server answers on the agent's socket.
type Server struct {
	// Launchers, Node and Events are the sources of answers. The server calls them
	// concurrently. They must answer from memory.
	Launchers Launchers
	Node      func() agentapi.Node
	Events    *Ring
	Logger    *slog.Logger
	// Leases sets leases. It is nil if the kernel cannot track processes: then the agent
	// stops no VM process.
	Leases Leases
	// Sizes accepts resize requests. If it is nil, the server refuses them.
	Sizes Sizes
	// WriteTimeout bounds the time of a reader for an answer, or for one event of the stream. 0
	// means 10 s.
	WriteTimeout time.Duration
}

// Serve answers on l until ctx ends, then ends the event streams and returns. It closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	streams, endStreams := context.WithCancel(context.WithoutCancel(ctx))
	defer endStreams()
	server := &http.Server{
		Handler:           s.Handler(),
		ReadHeaderTimeout: readTimeout,
		WriteTimeout:      s.writeTimeout(),
		ErrorLog:          slog.NewLogLogger(s.Logger.Handler(), slog.LevelWarn),
		BaseContext:       func(net.Listener) context.Context { return streams },
	}
	server.RegisterOnShutdown(endStreams)
	return serve.Until(ctx, server, l)
}

// Handler returns the routes of package agentapi.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+agentapi.PathLaunchers, s.listLaunchers)
	mux.HandleFunc("GET "+onePod, s.launchersOfPod)
	mux.HandleFunc("PUT "+onePod+agentapi.SuffixLease, s.grantLease)
	mux.HandleFunc("DELETE "+onePod+agentapi.SuffixLease, s.endLease)
	mux.HandleFunc("PUT "+onePod+agentapi.SuffixResize, s.resize)
	mux.HandleFunc("GET "+agentapi.PathNode, s.node)
	mux.HandleFunc("GET "+agentapi.PathEvents, s.streamEvents)
	mux.HandleFunc("/", s.notFound)
	return mux
}

func (s *Server) listLaunchers(w http.ResponseWriter, _ *http.Request) {
	s.answer(w, http.StatusOK, s.sorted(func(*agentapi.Launcher) bool { return true }))
}

func (s *Server) launchersOfPod(w http.ResponseWriter, r *http.Request) {
	namespace, name := r.PathValue("namespace"), r.PathValue("pod")
	found := s.sorted(func(l *agentapi.Launcher) bool { return isOf(l, namespace, name) })
	if len(found) == 0 {
		s.refuse(w, http.StatusNotFound, "pod %s/%s has no launcher on this node", namespace, name)
		return
	}
	s.answer(w, http.StatusOK, found)
}

func (s *Server) node(w http.ResponseWriter, _ *http.Request) {
	s.answer(w, http.StatusOK, s.Node())
}

func (s *Server) notFound(w http.ResponseWriter, r *http.Request) {
	s.refuse(w, http.StatusNotFound,
		"no such resource: %s %s; want GET %s, %s or %s, PUT or DELETE %s, or PUT %s",
		r.Method, r.URL.Path, agentapi.PathLaunchers, agentapi.PathEvents, agentapi.PathNode,
		onePod+agentapi.SuffixLease, onePod+agentapi.SuffixResize)
}

func isOf(l *agentapi.Launcher, namespace, pod string) bool {
	return l.Pod.Namespace == namespace && l.Pod.Name == pod
}

// sorted returns the launchers for which keep returns true. It never returns nil, so that
// JSON has an empty list.
func (s *Server) sorted(keep func(*agentapi.Launcher) bool) []agentapi.Launcher {
	kept := []agentapi.Launcher{}
	for _, launcher := range s.Launchers.Launchers() {
		if keep(&launcher) {
			kept = append(kept, launcher)
		}
	}
	slices.SortFunc(kept, func(a, b agentapi.Launcher) int {
		return cmp.Or(
			cmp.Compare(a.Pod.Namespace, b.Pod.Namespace),
			cmp.Compare(a.Pod.Name, b.Pod.Name),
			a.Since.Compare(b.Since),
			cmp.Compare(a.Container.Name, b.Container.Name),
		)
	})
	return kept
}

func (s *Server) refuse(w http.ResponseWriter, status int, format string, args ...any) {
	s.answer(w, status, agentapi.Error{Message: fmt.Sprintf(format, args...)})
}

func (s *Server) answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		s.Logger.Debug("cannot send an answer on the agent's socket", slog.Any("error", err))
	}
}
