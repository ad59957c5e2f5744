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
	// readTimeout is the longest time for receiving a request.
	readTimeout = 5 * time.Second

	// writeTimeout is the longest time for sending an answer, or a line of a stream.
	writeTimeout = 5 * time.Second

	// idleTimeout is the longest time between two requests of a connection.
	idleTimeout = time.Minute

	// requestRate bounds the requests of a pod per second. requestBurst is the bucket's size.
	requestRate  = 20
	requestBurst = 40

	// sweepEvery is the time between two sweeps for deleted pods.
	sweepEvery = 10 * time.Second
)

// Dirs gives access to the directories of pods: see [poddir.Dirs].
type Dirs interface {
	Follow(ctx context.Context, changed func(uid string)) error
	Listen(ctx context.Context, uid string) (net.Listener, poddir.ID, error)
	ID(uid string) (poddir.ID, error)
}

// Pods serves all pods. Several goroutines may call the methods at once.
type Pods interface {
	// Pod returns the server of one pod.
	Pod(uid string) Pod

	// Forget drops the state of a pod whose directory is gone, unless the pod has a launcher.
	Forget(uid string)

	// Sweep drops the state of all pods with neither launcher nor directory. These are pods deleted
	// while the agent was away, and pods that sent a request at their very end. gone must not
	// block. Sweep does nothing until the agent knows all launchers.
	Sweep(gone func(uid string) bool)
}

// Server listens on a socket in the directory of each pod.
type Server struct {
	Dirs   Dirs
	Pods   Pods
	Logger *slog.Logger

	// The following fields belong to the goroutine of Run.
	sockets map[string]*socket // by pod UID
	serving sync.WaitGroup
}

// socket is the socket of one pod.
type socket struct {
	dir    poddir.ID
	stop   context.CancelFunc
	closed <-chan struct{} // closed when no goroutine serves the socket any more
}

// serves reports whether the socket belongs to this directory and still answers.
func (s *socket) serves(dir poddir.ID) bool {
	select {
	case <-s.closed:
		return false
	default:
		return s.dir == dir
	}
}

// Run listens in all pod directories, present and future ones, until ctx ends. It stops listening
// in a deleted directory. Call it once.
func (s *Server) Run(ctx context.Context) error {
	s.sockets = map[string]*socket{}
	defer s.serving.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.serving.Go(func() { s.sweep(ctx) })
	return s.Dirs.Follow(ctx, func(uid string) { s.syncSocket(ctx, uid) })
}

// syncSocket opens or closes the socket of a pod to match its directory.
func (s *Server) syncSocket(ctx context.Context, uid string) {
	id, err := s.Dirs.ID(uid)
	has := s.sockets[uid]
	switch {
	case errors.Is(err, fs.ErrNotExist):
		s.close(uid)
		s.Pods.Forget(uid)
	case err != nil:
		s.Logger.Warn("reading the directory of a pod failed", "uid", uid, "error", err)
	case has == nil || !has.serves(id):
		s.close(uid)
		s.open(ctx, uid)
	}
}

// sweep drops the state of deleted pods until ctx ends.
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
			s.Logger.Warn("opening the socket of a pod failed; the agent retries", "uid", uid,
				"error", err)
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

// Serve serves one pod on l until ctx ends, and closes l.
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
		// a pod can write there
		ErrorLog:    slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
		BaseContext: func(net.Listener) context.Context { return streams },
	}
	server.RegisterOnShutdown(endStreams)
	return serve.Until(ctx, server, limitListener(l))
}

// handler returns the routes of package podapi.
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
			h.refuse(w, refusal(podapi.CodeBusy, "more than %d requests a second: try again",
				requestRate))
			return
		}
		mux.ServeHTTP(w, r)
	})
}
