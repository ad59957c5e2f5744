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

	// leaseTimeout is shorter than the client's timeout, so that the client gets an answer.
	leaseTimeout = 5 * time.Second
)

// Leases sets leases. Under a lease, the agent stops no VM process of a pod's launchers.
type Leases interface {
	// Lease sets a lease for this period. A period of 0 ends the present lease. It blocks until the
	// lease holds for all launchers of the pod with tracked processes, and returns their number, or
	// until ctx ends.
	Lease(ctx context.Context, namespace, pod string, period time.Duration,
		reason string) (launchers int, err error)
}

const noLeases = "the kernel of this node cannot track processes: the agent stops no VM process, " +
	"and a lease " +
	"has no effect; `mooring version` shows the missing feature"

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

// lease sets a lease, or ends it if the requested period is 0.
func (s *Server) lease(w http.ResponseWriter, r *http.Request, request agentapi.LeaseRequest) {
	namespace, name := r.PathValue("namespace"), r.PathValue("pod")
	if s.Leases == nil {
		s.refuse(w, http.StatusNotImplemented, noLeases)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), leaseTimeout)
	defer cancel()
	launchers, err := s.Leases.Lease(ctx, namespace, name, request.Period(), request.Reason)
	switch {
	case err != nil:
		s.refuse(w, http.StatusServiceUnavailable,
			"%v; repeat the request, and check the lease: `mooring inspect %s/%s`", err,
			namespace, name)
	case launchers == 0:
		s.refuse(w, http.StatusNotFound,
			"pod %s/%s has no launcher with tracked VM processes on this node", namespace, name)
	default:
		s.Logger.Info("lease", slog.String("pod", namespace+"/"+name),
			slog.Int("launchers", launchers),
			slog.Duration("period", request.Period()), slog.String("reason", request.Reason))
		s.answer(w, http.StatusOK,
			s.sorted(func(l *agentapi.Launcher) bool {
				return isOf(l, namespace, name) && l.Phase != ""
			}))
	}
}

// readLease reads one request. Further data is an error.
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
