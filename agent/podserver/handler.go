package podserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"golang.org/x/time/rate"

	"github.com/mooring-vm/mooring/api/podapi"
)

// complainEvery is how often the log tells of a pod that cannot be answered.
const errorLogEvery = 10 * time.Second

// Pod answers for one pod. The methods may be called from several goroutines at once,
// and make a bounded number of local system calls. Errors are [*Refusal], or the
// kernel's.
type Pod interface {
	Observed() (podapi.Observed, error)
	Lock(podapi.Lock) error
	RequireMemory(podapi.MemoryRequirement) error
	Hold(time.Duration) error                                        // 0 or less ends it
	Lease(ctx context.Context, d time.Duration, reason string) error // likewise
	Desired() (podapi.Desired, error)
	Report(podapi.Report) error
	Stop() (podapi.Stop, error)
	Headroom() podapi.Headroom

	// Take says that a client takes requests to end its VM, until leave is called.
	HandleStops() (leave func())

	// Glance is what a stream looks at, and cheap.
	Summary() Summary
}

// Glance is what changes are told of.
type Summary struct {
	PodMax, ContainerMax, Lock podapi.Amount
	VM                         int
	Generation, DryRun         uint64 // of what is wanted, and of the last dry run
	Stop                       bool   // the pod is asked to end its VM
}

// Refusal is an answer that is no 200.
type Refusal struct {
	Code    string // one of podapi's
	Message string
}

// Error implements error.
func (r *Refusal) Error() string { return r.Message }

func refusal(code, format string, args ...any) *Refusal {
	return &Refusal{Code: code, Message: fmt.Sprintf(format, args...)}
}

// statuses are those of the codes.
var statuses = map[string]int{
	podapi.CodeInvalid:   http.StatusBadRequest,
	podapi.CodeTooLarge:  http.StatusRequestEntityTooLarge,
	podapi.CodeNotFound:  http.StatusNotFound,
	podapi.CodeRefused:   http.StatusForbidden,
	podapi.CodeNoVM:      http.StatusConflict,
	podapi.CodeLocked:    http.StatusConflict,
	podapi.CodeMigrating: http.StatusConflict,
	podapi.CodeHeld:      http.StatusConflict,
	podapi.CodeBusy:      http.StatusTooManyRequests,
	podapi.CodeStarting:  http.StatusServiceUnavailable,
	podapi.CodeFailed:    http.StatusInternalServerError,
}

// handle answers requests for one pod.
type podHandler struct {
	pod          Pod
	logger       *slog.Logger
	streams      chan struct{} // has an element for each stream
	errorLogRate *rate.Limiter
}

func (h *podHandler) observed(w http.ResponseWriter, _ *http.Request) {
	seen, err := h.pod.Observed()
	h.answer(w, seen, err)
}

func (h *podHandler) desired(w http.ResponseWriter, _ *http.Request) {
	wanted, err := h.pod.Desired()
	h.answer(w, wanted, err)
}

func (h *podHandler) headroom(w http.ResponseWriter, _ *http.Request) {
	h.answer(w, h.pod.Headroom(), nil)
}

func (h *podHandler) lock(w http.ResponseWriter, r *http.Request) {
	request, err := read[podapi.Lock](w, r, podapi.MaxRequest)
	if err == nil {
		err = h.pod.Lock(request)
	}
	if err != nil {
		h.refuse(w, err)
		return
	}
	h.observed(w, r)
}

func (h *podHandler) requireMemory(w http.ResponseWriter, r *http.Request) {
	request, err := read[podapi.MemoryRequirement](w, r, podapi.MaxRequest)
	if err == nil {
		err = h.pod.RequireMemory(request)
	}
	h.answer(w, request, err)
}

func (h *podHandler) hold(w http.ResponseWriter, r *http.Request) {
	request, err := read[podapi.Hold](w, r, podapi.MaxRequest)
	if err == nil {
		err = h.pod.Hold(request.Period())
	}
	h.answer(w, request, err)
}

func (h *podHandler) endHold(w http.ResponseWriter, _ *http.Request) {
	h.answer(w, podapi.Hold{}, h.pod.Hold(0))
}

func (h *podHandler) lease(w http.ResponseWriter, r *http.Request) {
	request, err := read[podapi.Lease](w, r, podapi.MaxRequest)
	if err == nil {
		err = h.pod.Lease(r.Context(), request.Period(), request.Reason)
	}
	h.answer(w, request, err)
}

func (h *podHandler) endLease(w http.ResponseWriter, r *http.Request) {
	h.answer(w, podapi.Lease{}, h.pod.Lease(r.Context(), 0, ""))
}

func (h *podHandler) report(w http.ResponseWriter, r *http.Request) {
	report, err := read[podapi.Report](w, r, podapi.MaxReport)
	if err == nil {
		err = h.pod.Report(report)
	}
	h.answer(w, struct{}{}, err)
}

func (h *podHandler) notFound(w http.ResponseWriter, r *http.Request) {
	h.refuse(w, refusal(podapi.CodeNotFound, "no such resource: %.20q %.80q; docs/reference/pod-socket.md lists them", r.Method, r.URL.Path))
}

// read reads the body of a request.
func read[T interface{ Check() error }](w http.ResponseWriter, r *http.Request, most int64) (T, error) {
	value, err := podapi.Decode[T](http.MaxBytesReader(w, r.Body, most))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return value, refusal(podapi.CodeTooLarge, "want a body of at most %d bytes", most)
	}
	if err != nil {
		return value, refusal(podapi.CodeInvalid, "%v", err)
	}
	return value, nil
}

// answer answers with a value, or with what keeps it from being given.
func (h *podHandler) answer(w http.ResponseWriter, value any, err error) {
	if err != nil {
		h.refuse(w, err)
		return
	}
	h.write(w, http.StatusOK, value)
}

// refuse answers with an error. What is no refusal is for the log: it can have paths of
// the node.
func (h *podHandler) refuse(w http.ResponseWriter, err error) {
	r, ok := errors.AsType[*Refusal](err)
	if !ok {
		if h.errorLogRate.Allow() {
			h.logger.Warn("a pod could not be answered", "error", err)
		}
		r = refusal(podapi.CodeFailed, "the node's kernel could not be asked; the agent's log says why")
	}
	h.write(w, statuses[r.Code], podapi.Error{Code: r.Code, Message: r.Message})
}

func (h *podHandler) write(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		h.logger.Debug("answering a pod failed", "error", err)
	}
}
