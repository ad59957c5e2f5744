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
const stayPeriod = time.Second

// takers counts the streams whose client takes requests to end its VM.
type takers struct {
	mu sync.Mutex
	of map[string]*taker // by pod UID
}

// taker is a pod with such streams, or one that had some a moment ago.
type taker struct {
	streams int
	leaving *time.Timer // nil: none was ever left
}

// Take implements [Pod].
func (p *pod) Take() (leave func()) {
	if p.node.Takes == nil {
		return func() {}
	}
	k := p.node.takers.enter(p.uid, p.node.Takes)
	return func() { p.node.takers.leave(p.uid, k, p.node.Takes) }
}

// enter counts a stream, and tells of the first.
func (t *takers) enter(uid string, tell func(string, bool)) *taker {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.of[uid]
	if k == nil {
		k = &taker{}
		if t.of == nil {
			t.of = map[string]*taker{}
		}
		t.of[uid] = k
		tell(uid, true)
	}
	k.streams++
	if k.leaving != nil {
		k.leaving.Stop()
	}
	return k
}

// leave ends what enter has counted, and tells a little later if none is left.
func (t *takers) leave(uid string, k *taker, tell func(string, bool)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if k.streams--; k.streams > 0 {
		return
	}
	k.leaving = time.AfterFunc(stayPeriod, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if k.streams == 0 && t.of[uid] == k {
			delete(t.of, uid)
			tell(uid, false)
		}
	})
}

// Stop implements [Pod]. What is asked is shown also after the launcher's end: that is
// when there is most to ask for.
func (p *pod) Stop() (podapi.Stop, error) {
	if stop, ok := p.node.Registry.StopOf(p.uid); ok {
		left := max(stop.Due.Sub(p.node.Clock.Now()), 0)
		return podapi.Stop{Asked: true, Why: stop.Why, Seconds: int64(left / time.Second)}, nil
	}
	if !p.node.Ready() {
		return podapi.Stop{}, refused(podapi.CodeStarting, "the agent does not know all launchers of the node yet: try again")
	}
	return podapi.Stop{}, nil
}

func (h *handle) stop(w http.ResponseWriter, _ *http.Request) {
	stop, err := h.pod.Stop()
	h.answer(w, stop, err)
}

// takesStops reads the query of a stream, and reports whether its client takes requests
// to end its VM.
func takesStops(query string) (bool, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return false, refused(podapi.CodeInvalid, "query: want none, or %s=1: %v", podapi.QueryStops, err)
	}
	takes := slices.Equal(values[podapi.QueryStops], []string{"1"})
	if takes {
		delete(values, podapi.QueryStops)
	}
	if len(values) > 0 {
		return false, refused(podapi.CodeInvalid, "query: %.80q: want none, or %s=1", query, podapi.QueryStops)
	}
	return takes, nil
}
