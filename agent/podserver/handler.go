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

// errorLogEvery is the shortest time between two log lines about failures for one pod.
const errorLogEvery = 10 * time.Second

// Pod serves one pod. Several goroutines may call the methods at once. Each method makes a bounded
// number of local system calls. Errors are [*Refusal] or the kernel's.
type Pod interface {
	Observed() (podapi.Observed, error)
	Lock(podapi.Lock) error
	RequireMemory(podapi.MemoryRequirement) error
	Hold(d time.Duration, added podapi.Amount) error                 // 0 or less ends it
	Lease(ctx context.Context, d time.Duration, reason string) error // likewise
	Desired() (podapi.Desired, error)
	Report(podapi.Report) error
	Stop() (podapi.Stop, error)
	Headroom() podapi.Headroom

	// HandleStops registers a stop handler until the caller calls leave.
	HandleStops() (leave func())

	// Summary returns the values that a stream compares. It is cheap.
	Summary() Summary
}

// Summary are the values whose changes a stream reports.
type Summary struct {
	PodMax, ContainerMax, Lock podapi.Amount
	VM                         int
	Generation, DryRun         uint64 // of the desired state, and of the latest dry run
	Stop                       bool   // there is a stop request
}

// Refusal is an answer with a status other than 200.
type Refusal struct {
	Code    string // a code of package podapi
	Message string
}

// Error implements error.
func (r *Refusal) Error() string { return r.Message }

func refusal(code, format string, args ...any) *Refusal {
	return &Refusal{Code: code, Message: fmt.Sprintf(format, args...)}
}

// statuses are the HTTP statuses of the codes.
var statuses = map[string]int{
	podapi.CodeInvalid:   http.StatusBadRequest,
	podapi.CodeTooLarge:  http.StatusRequestEntityTooLarge,
	podapi.CodeNotFound:  http.StatusNotFound,
	podapi.CodeRefused:   http.StatusForbidden,
	podapi.CodeNoVM:      http.StatusConflict,
	podapi.CodeNoMemory:  http.StatusConflict,
	podapi.CodeLocked:    http.StatusConflict,
	podapi.CodeMigrating: http.StatusConflict,
	podapi.CodeHeld:      http.StatusConflict,
	podapi.CodeBusy:      http.StatusTooManyRequests,
	podapi.CodeStarting:  http.StatusServiceUnavailable,
	podapi.CodeFailed:    http.StatusInternalServerError,
}

// podHandler handles the requests of one pod.
type podHandler struct {
	pod          Pod
	logger       *slog.Logger
	streams      chan struct{} // has an element for each open stream
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
		err = h.pod.Hold(request.Period(), request.Growth)
	}
	h.answer(w, request, err)
}

func (h *podHandler) endHold(w http.ResponseWriter, _ *http.Request) {
	h.answer(w, podapi.Hold{}, h.pod.Hold(0, 0))
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
	h.refuse(w, refusal(podapi.CodeNotFound, "no such resource: %.20q %.80q; "+
		"docs/reference/pod-socket.md lists them", r.Method, r.URL.Path))
}

// read reads the body of a request.
func read[T interface{ Check() error }](
	w http.ResponseWriter, r *http.Request, most int64,
) (T, error) {
	value, err := podapi.Decode[T](http.MaxBytesReader(w, r.Body, most))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return value, refusal(podapi.CodeTooLarge, "want a body of at most %d bytes", most)
	}
	if err != nil {
		return value, refusal(podapi.CodeInvalid, "%v", err)
	}
	return value, nil
}

// answer writes a value, or the error.
func (h *podHandler) answer(w http.ResponseWriter, value any, err error) {
	if err != nil {
		h.refuse(w, err)
		return
	}
	h.write(w, http.StatusOK, value)
}

// refuse writes an error. It logs an error that is not a [*Refusal] and hides it from the pod,
// because it can contain paths of the node.
func (h *podHandler) refuse(w http.ResponseWriter, err error) {
	r, ok := errors.AsType[*Refusal](err)
	if !ok {
		if h.errorLogRate.Allow() {
			h.logger.Warn("reading the state for a pod failed", "error", err)
		}
		r = refusal(podapi.CodeFailed, "the agent could not read the kernel's state; its log has "+
			"the cause")
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
