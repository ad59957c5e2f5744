package podserver

import (
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/mooring-vm/mooring/api/podapi"
)

const (
	// maxStreams bounds the streams of a pod.
	maxStreams = 4

	// pollEvery bounds the delay of a change. keepAliveEvery is the time between two lines without
	// a change.
	pollEvery      = time.Second
	keepAliveEvery = 30 * time.Second
)

// changes reports changes until the pod disconnects or stops reading.
func (h *podHandler) changes(w http.ResponseWriter, r *http.Request) {
	takes, err := isStopHandler(r.URL.RawQuery)
	if err != nil {
		h.refuse(w, err)
		return
	}
	select {
	case h.streams <- struct{}{}:
		defer func() { <-h.streams }()
	default:
		h.refuse(w, refusal(podapi.CodeBusy, "there are %d streams already", maxStreams))
		return
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.WriteHeader(http.StatusOK)
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Time{}) // the request has been read
	if takes {
		defer h.pod.HandleStops()()
	}
	h.stream(w, r)
}

func (h *podHandler) stream(w http.ResponseWriter, r *http.Request) {
	glances, alive := time.NewTicker(pollEvery), time.NewTicker(keepAliveEvery)
	defer glances.Stop()
	defer alive.Stop()
	was := h.pod.Summary()
	err := writeLine(w, podapi.Change{Changed: podapi.ChangedNone, Generation: was.Generation})
	for err == nil {
		select {
		case <-r.Context().Done():
			return
		case <-alive.C:
			err = writeLine(w, podapi.Change{Changed: podapi.ChangedNone,
				Generation: was.Generation})
		case <-glances.C:
			is := h.pod.Summary()
			err = writeChanges(w, was, is)
			was = is
		}
	}
}

// writeChanges writes a line for each kind of change.
func writeChanges(w http.ResponseWriter, was, is Summary) error {
	var errs []error
	if was.Generation != is.Generation || was.DryRun != is.DryRun {
		errs = append(errs,
			writeLine(w, podapi.Change{Changed: podapi.ChangedDesired, Generation: is.Generation}))
	}
	if was.Stop != is.Stop {
		errs = append(errs,
			writeLine(w, podapi.Change{Changed: podapi.ChangedStop, Generation: is.Generation}))
	}
	if was.Generation, was.DryRun, was.Stop = is.Generation, is.DryRun, is.Stop; was != is {
		errs = append(errs,
			writeLine(w, podapi.Change{Changed: podapi.ChangedObserved, Generation: is.Generation}))
	}
	return errors.Join(errs...)
}

// writeLine writes a line within writeTimeout, so that a pod that does not read cannot block a
// goroutine for ever.
func writeLine(w http.ResponseWriter, change podapi.Change) error {
	control := http.NewResponseController(w)
	if err := control.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil &&
		!errors.Is(err, http.ErrNotSupported) {
		return err
	}
	if err := json.NewEncoder(w).Encode(change); err != nil {
		return err
	}
	return control.Flush()
}
