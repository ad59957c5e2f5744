package podserver

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/internal/serve"
	"github.com/mooring-vm/mooring/lifecycle/poddir"
)

const (
	// readTimeout is how long a request may take to come in.
	readTimeout = 5 * time.Second

	// writeTimeout is how long a pod may take for an answer, or for a line of a stream.
	writeTimeout = 5 * time.Second

	// idleTimeout is how long a connection may wait for its next request.
	idleTimeout = time.Minute

	// requestRate is how many requests a second a pod may make, and how many more at
	// first.
	requestRate  = 20
	requestBurst = 40

	// sweepEvery is the time between two looks for pods that are gone.
	sweepEvery = 10 * time.Second
)

// Dirs has the directories of pods: see [poddir.Dirs].
type Dirs interface {
	Follow(ctx context.Context, changed func(uid string)) error
	Listen(ctx context.Context, uid string) (net.Listener, poddir.ID, error)
	ID(uid string) (poddir.ID, error)
}

// Pods answers for pods. The methods may be called from several goroutines at once.
type Pods interface {
	// Pod returns what answers for a pod.
	Pod(uid string) Pod

	// Forget says that the pod has no directory any more. One that has a launcher is
	// kept.
	Forget(uid string)

	// Sweep forgets all pods that have neither a launcher nor a directory: those that
	// went while the agent was away, and those that asked for something in their last
	// moment. gone must not block; nor is anything forgotten while not all launchers
	// are known.
	Sweep(gone func(uid string) bool)
}

// Server listens in the directory of each pod.
type Server struct {
	Dirs   Dirs
	Pods   Pods
	Logger *slog.Logger

	// What follows belongs to the goroutine of Run.
	sockets map[string]*socket // by pod UID
	serving sync.WaitGroup
}

// socket is that of one pod.
type socket struct {
	dir    poddir.ID
	stop   context.CancelFunc
	closed <-chan struct{} // closed once nobody answers any more
}

// serves reports whether the socket is that of the directory, and answers.
func (s *socket) serves(dir poddir.ID) bool {
	select {
	case <-s.closed:
		return false
	default:
		return s.dir == dir
	}
}

// Run listens in the directories that there are and that come, until ctx is done. It
// stops listening in those that go. To be called once.
func (s *Server) Run(ctx context.Context) error {
	s.sockets = map[string]*socket{}
	defer s.serving.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.serving.Go(func() { s.sweep(ctx) })
	return s.Dirs.Follow(ctx, func(uid string) { s.syncSocket(ctx, uid) })
}

// look sees to it that a pod's directory has a socket if it is there.
func (s *Server) syncSocket(ctx context.Context, uid string) {
	id, err := s.Dirs.ID(uid)
	has := s.sockets[uid]
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.close(uid)
		s.Pods.Forget(uid)
	case err != nil:
		s.Logger.Warn("the directory of a pod cannot be looked at", "uid", uid, "error", err)
	case has == nil || !has.serves(id):
		s.close(uid)
		s.open(ctx, uid)
	}
}

// sweep has pods that are gone forgotten until ctx is done.
func (s *Server) sweep(ctx context.Context) {
	round := time.NewTicker(sweepEvery)
	defer round.Stop()
	for {
		s.Pods.Sweep(s.gone)
		select {
		case <-ctx.Done():
			return
		case <-round.C:
		}
	}
}

// gone reports whether a pod has no directory.
func (s *Server) gone(uid string) bool {
	_, err := s.Dirs.ID(uid)
	return errors.Is(err, fs.ErrNotExist)
}

func (s *Server) close(uid string) {
	if has := s.sockets[uid]; has != nil {
		has.stop()
		delete(s.sockets, uid)
	}
}

func (s *Server) open(ctx context.Context, uid string) {
	l, id, err := s.Dirs.Listen(ctx, uid)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) { // gone meanwhile
			s.Logger.Warn("a pod has no socket; it is tried again", "uid", uid, "error", err)
		}
		return
	}
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan struct{})
	s.sockets[uid] = &socket{dir: id, stop: cancel, closed: over}
	s.serving.Go(func() {
		defer close(over)
		if err := Serve(ctx, l, s.Pods.Pod(uid), s.Logger.With("uid", uid)); err != nil {
			s.Logger.Warn("a pod's socket failed", "uid", uid, "error", err)
		}
	})
}

// Serve answers for one pod on l until ctx is done, and closes l.
func Serve(ctx context.Context, l net.Listener, pod Pod, logger *slog.Logger) error {
	streams, endStreams := context.WithCancel(context.WithoutCancel(ctx))
	defer endStreams()
	server := &http.Server{
		Handler:           handler(pod, logger),
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    podapi.MaxHeader,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug), // a pod can write there
		BaseContext:       func(net.Listener) context.Context { return streams },
	}
	server.RegisterOnShutdown(endStreams)
	return serve.Until(ctx, server, limitListener(l))
}

// handler returns the routes that package podapi describes.
func handler(pod Pod, logger *slog.Logger) http.Handler {
	h := &podHandler{
		pod: pod, logger: logger, streams: make(chan struct{}, maxStreams),
		errorLogRate: rate.NewLimiter(rate.Every(errorLogEvery), 1),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+podapi.PathObserved, h.observed)
	mux.HandleFunc("PUT "+podapi.PathLock, h.lock)
	mux.HandleFunc("PUT "+podapi.PathMemoryRequirement, h.requireMemory)
	mux.HandleFunc("PUT "+podapi.PathHold, h.hold)
	mux.HandleFunc("DELETE "+podapi.PathHold, h.endHold)
	mux.HandleFunc("PUT "+podapi.PathLease, h.lease)
	mux.HandleFunc("DELETE "+podapi.PathLease, h.endLease)
	mux.HandleFunc("GET "+podapi.PathDesired, h.desired)
	mux.HandleFunc("GET "+podapi.PathChanges, h.changes)
	mux.HandleFunc("PUT "+podapi.PathReport, h.report)
	mux.HandleFunc("GET "+podapi.PathStop, h.stop)
	mux.HandleFunc("GET "+podapi.PathHeadroom, h.headroom)
	mux.HandleFunc("/", h.notFound)
	requests := rate.NewLimiter(requestRate, requestBurst)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !requests.Allow() {
			w.Header().Set("Retry-After", "1")
			h.refuse(w, refusal(podapi.CodeBusy, "more than %d requests a second: try again", requestRate))
			return
		}
		mux.ServeHTTP(w, r)
	})
}
