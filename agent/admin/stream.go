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

// ReasonCutOff is the reason of the last event in the stream of a reader that was
// too slow. It is about the stream, not about a pod.
const ReasonCutOff agentapi.Reason = "StreamCutOff"

const defaultWriteTimeout = 10 * time.Second

func (s *Server) streamEvents(w http.ResponseWriter, r *http.Request) {
	subscription := s.Events.Subscribe()
	defer subscription.Close()
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	// An empty backlog must not keep the reader waiting for the header.
	err := http.NewResponseController(w).Flush()
	for err == nil {
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

// limitWrite gives the next event its own time, so that a reader that stopped
// reading holds no goroutine for ever, and a stream may be long. A writer without
// deadlines, as in tests, is left alone.
func (s *Server) limitWrite(w http.ResponseWriter) {
	err := http.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.writeTimeout()))
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		s.Logger.Debug("limiting a write on the agent's socket failed", slog.Any("error", err))
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
		Message: err.Error() + ": some are missing here; ask again, and read faster",
	}
}
