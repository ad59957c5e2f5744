package podserver

import (
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/mooring-vm/mooring/api/podapi"
)

// stayPeriod is how long a pod without streams that take requests counts as one with
// some: however often a client comes and goes, it is told of once in that time.
const handlerGrace = time.Second

// takers counts the streams whose client takes requests to end its VM.
type stopHandlers struct {
	mu    sync.Mutex
	byUID map[string]*stopHandler // by pod UID
}

// taker is a pod with such streams, or one that had some a moment ago.
type stopHandler struct {
	streams int
	removal *time.Timer // nil: none was ever left
}

// Take implements [Pod].
func (p *pod) HandleStops() (leave func()) {
	if p.node.SetStopHandler == nil {
		return func() {}
	}
	k := p.node.stopHandlers.add(p.uid, p.node.SetStopHandler)
	return func() { p.node.stopHandlers.remove(p.uid, k, p.node.SetStopHandler) }
}

// enter counts a stream, and tells of the first.
func (t *stopHandlers) add(uid string, tell func(string, bool)) *stopHandler {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.byUID[uid]
	if k == nil {
		k = &stopHandler{}
		if t.byUID == nil {
			t.byUID = map[string]*stopHandler{}
		}
		t.byUID[uid] = k
		tell(uid, true)
	}
	k.streams++
	if k.removal != nil {
		k.removal.Stop()
	}
	return k
}

// leave ends what enter has counted, and tells a little later if none is left.
func (t *stopHandlers) remove(uid string, k *stopHandler, tell func(string, bool)) {
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
			tell(uid, false)
		}
	})
}

// Stop implements [Pod]. What is asked is shown also after the launcher's end: that is
// when there is most to ask for.
func (p *pod) Stop() (podapi.Stop, error) {
	if stop, ok := p.node.Registry.StopOf(p.uid); ok {
		left := max(stop.Due.Sub(p.node.Clock.Now()), 0)
		return podapi.Stop{Requested: true, Reason: stop.Why, Seconds: int64(left / time.Second)}, nil
	}
	if !p.node.Ready() {
		return podapi.Stop{}, refusal(podapi.CodeStarting, "the agent does not know all launchers of the node yet: try again")
	}
	return podapi.Stop{}, nil
}

func (h *podHandler) stop(w http.ResponseWriter, _ *http.Request) {
	stop, err := h.pod.Stop()
	h.answer(w, stop, err)
}

// takesStops reads the query of a stream, and reports whether its client takes requests
// to end its VM.
func isStopHandler(query string) (bool, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return false, refusal(podapi.CodeInvalid, "query: want none, or %s=1: %v", podapi.QueryStopHandler, err)
	}
	takes := slices.Equal(values[podapi.QueryStopHandler], []string{"1"})
	if takes {
		delete(values, podapi.QueryStopHandler)
	}
	if len(values) > 0 {
		return false, refusal(podapi.CodeInvalid, "query: %.80q: want none, or %s=1", query, podapi.QueryStopHandler)
	}
	return takes, nil
}
