package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
)

const (
	maxLeaseRequest = 4 << 10

	// leaseTimeout leaves time for an answer before the client gives up.
	leaseTimeout = 5 * time.Second
)

// Leases holds back what would be done to the VM processes of a pod's launchers.
type Leases interface {
	// Lease holds for that long; a period of 0 ends the lease that there is. It
	// returns once that is so for all of the pod's launchers that are followed,
	// and how many they are, or when ctx is done.
	Lease(ctx context.Context, namespace, pod string, period time.Duration, reason string) (launchers int, err error)
}

const noLeases = "the kernel of this node cannot track processes, so nothing is done to VM processes that a lease could hold back; " +
	"`mooring version` says what is missing"

func (s *Server) grantLease(w http.ResponseWriter, r *http.Request) {
	request, err := readLease(http.MaxBytesReader(w, r.Body, maxLeaseRequest))
	if err != nil {
		s.refuse(w, http.StatusBadRequest, "lease: %v", err)
		return
	}
	s.lease(w, r, request)
}

func (s *Server) endLease(w http.ResponseWriter, r *http.Request) {
	s.lease(w, r, agentapi.LeaseRequest{})
}

// lease has a lease hold, or ended where it is for no time at all.
func (s *Server) lease(w http.ResponseWriter, r *http.Request, request agentapi.LeaseRequest) {
	namespace, name := r.PathValue("namespace"), r.PathValue("pod")
	if s.Leases == nil {
		s.refuse(w, http.StatusNotImplemented, noLeases)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), leaseTimeout)
	defer cancel()
	held, err := s.Leases.Lease(ctx, namespace, name, request.Period(), request.Reason)
	switch {
	case err != nil:
		s.refuse(w, http.StatusServiceUnavailable, "%v; ask again, and see whether it holds: `mooring inspect %s/%s`", err, namespace, name)
	case held == 0:
		s.refuse(w, http.StatusNotFound, "pod %s/%s has no launcher on this node whose VM processes are followed", namespace, name)
	default:
		s.Logger.Info("lease", slog.String("pod", namespace+"/"+name), slog.Int("launchers", held),
			slog.Duration("period", request.Period()), slog.String("reason", request.Reason))
		s.answer(w, http.StatusOK, s.sorted(func(l *agentapi.Launcher) bool { return isOf(l, namespace, name) && l.Phase != "" }))
	}
}

// readLease reads one request and nothing else.
func readLease(body io.Reader) (request agentapi.LeaseRequest, err error) {
	decoder := json.NewDecoder(body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&request); err != nil {
		return request, fmt.Errorf(`want {"seconds": 300, "reason": "..."}: %w`, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return request, errors.New(`want {"seconds": 300, "reason": "..."} and nothing after it`)
	}
	return request, request.Check()
}
