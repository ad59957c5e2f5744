package admin

import (
	"cmp"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"github.com/mooring-vm/mooring/api/agentapi"
)

// ReasonCutOff is the reason of the last event in the stream of a slow reader. It is about
// the stream, not about a pod.
const ReasonCutOff agentapi.Reason = "StreamCutOff"

const defaultWriteTimeout = 10 * time.Second

func (s *Server) streamEvents(w http.ResponseWriter, r *http.Request) {
	subscription := s.Events.Subscribe()
	defer subscription.Close()
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	// The reader gets the header even if there is no event yet.
	err := http.NewResponseController(w).Flush()
	latest := r.URL.RawQuery == agentapi.QueryLatest
	for err == nil && (!latest || subscription.Behind()) {
		var event agentapi.Event
		event, err = subscription.Next(r.Context())
		switch {
		case err == nil:
			err = s.writeLine(w, event)
		case errors.Is(err, ErrSlow):
			err = errors.Join(err, s.writeLine(w, cutOff(err)))
		}
	}
	s.Logger.Debug("event stream ended", slog.Any("error", err))
}

func (s *Server) writeLine(w http.ResponseWriter, event agentapi.Event) error {
	s.limitWrite(w)
	if err := json.NewEncoder(w).Encode(event); err != nil {
		return err
	}
	return http.NewResponseController(w).Flush()
}

// limitWrite sets a new deadline for each event. So a stream may be long, and a reader that
// stops reading blocks no goroutine forever. ResponseWriters without deadlines, as in tests, stay
// unlimited.
func (s *Server) limitWrite(w http.ResponseWriter) {
	err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.writeTimeout()))
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		s.Logger.Debug("cannot set a write deadline on the agent's socket", slog.Any("error", err))
	}
}

func (s *Server) writeTimeout() time.Duration {
	return cmp.Or(s.WriteTimeout, defaultWriteTimeout)
}

func cutOff(err error) agentapi.Event {
	return agentapi.Event{
		Time:    time.Now(),
		Type:    agentapi.Warning,
		Reason:  ReasonCutOff,
		Message: err.Error() + ": some events are missing; subscribe again, and read faster",
	}
}
