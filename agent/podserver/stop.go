package podserver

import (
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/mooring-vm/mooring/api/podapi"
)

// handlerGrace is the time for which a pod keeps its stop handler after the last stream. The agent
// therefore notes a client that reconnects often at most once in this time.
const handlerGrace = time.Second

// stopHandlers counts the streams of stop handlers.
type stopHandlers struct {
	mu    sync.Mutex
	byUID map[string]*stopHandler
}

// stopHandler is the stop handler of a pod: one or more streams, or none for a moment.
type stopHandler struct {
	streams int
	removal *time.Timer // nil: no stream has ended yet
}

// HandleStops implements [Pod].
func (p *pod) HandleStops() (leave func()) {
	if p.node.SetStopHandler == nil {
		return func() {}
	}
	k := p.node.stopHandlers.add(p.uid, p.node.SetStopHandler)
	return func() { p.node.stopHandlers.remove(p.uid, k, p.node.SetStopHandler) }
}

// add counts a stream, and reports the first one.
func (t *stopHandlers) add(uid string, report func(string, bool)) *stopHandler {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.byUID[uid]
	if k == nil {
		k = &stopHandler{}
		if t.byUID == nil {
			t.byUID = map[string]*stopHandler{}
		}
		t.byUID[uid] = k
		report(uid, true)
	}
	k.streams++
	if k.removal != nil {
		k.removal.Stop()
	}
	return k
}

// remove uncounts a stream. After handlerGrace without a stream it reports that none is left.
func (t *stopHandlers) remove(uid string, k *stopHandler, report func(string, bool)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k.streams--; k.streams > 0 {
		return
	}
	k.removal = time.AfterFunc(handlerGrace, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if k.streams == 0 && t.byUID[uid] == k {
			delete(t.byUID, uid)
			report(uid, false)
		}
	})
}

// Stop implements [Pod]. It works also after the launcher's end, when stop requests are most
// likely.
func (p *pod) Stop() (podapi.Stop, error) {
	if stop, ok := p.node.Registry.StopOf(p.uid); ok {
		left := max(stop.Due.Sub(p.node.Clock.Now()), 0)
		return podapi.Stop{Requested: true, Reason: stop.Why, Seconds: int64(left / time.Second)},
			nil
	}
	if !p.node.Ready() {
		return podapi.Stop{}, refusal(podapi.CodeStarting, "the agent does not know all "+
			"launchers of the node yet: try again")
	}
	return podapi.Stop{}, nil
}

func (h *podHandler) stop(w http.ResponseWriter, _ *http.Request) {
	stop, err := h.pod.Stop()
	h.answer(w, stop, err)
}

// isStopHandler reads the query of a stream and reports whether its client is a stop handler.
func isStopHandler(query string) (bool, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return false, refusal(podapi.CodeInvalid, "query: want none, or %s=1: %v",
			podapi.QueryStopHandler, err)
	}
	takes := slices.Equal(values[podapi.QueryStopHandler], []string{"1"})
	if takes {
		delete(values, podapi.QueryStopHandler)
	}
	if len(values) > 0 {
		return false, refusal(podapi.CodeInvalid, "query: %.80q: want none, or %s=1", query,
			podapi.QueryStopHandler)
	}
	return takes, nil
}
