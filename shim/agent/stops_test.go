package agent_test

import (
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/api/podapi"
)

// The client registers as a stop handler. It reads the stop request after each connection and each
// hint, and retries until the agent answers.
func TestStops(t *testing.T) {
	var questions atomic.Int64
	lines, streams := make(chan string), make(chan string, 8)
	n := answering(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == podapi.PathStop {
			q := questions.Add(1)
			if q == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			fmt.Fprintf(w, `{"asked":%t,"why":"w","seconds":%d}`, q > 2, q)
			return
		}
		streams <- r.URL.String()
		for line := range lines {
			if line == "" {
				return // the agent stops
			}
			fmt.Fprintf(w, `{"changed":%q}`+"\n", line)
			_ = http.NewResponseController(w).Flush()
		}
	})
	t.Cleanup(func() { close(lines) })
	stops := n.Stops(t.Context())
	send := func(all ...string) {
		t.Helper()
		for _, line := range all {
			lines <- line
		}
	}
	send(podapi.ChangedNone)
	wantStop(t, stops, podapi.Stop{Reason: "w", Seconds: 2})
	send(podapi.ChangedObserved, podapi.ChangedNone, podapi.ChangedDesired, podapi.ChangedStop)
	wantStop(t, stops, podapi.Stop{Requested: true, Reason: "w", Seconds: 3})
	send("", podapi.ChangedNone) // a new stream
	wantStop(t, stops, podapi.Stop{Requested: true, Reason: "w", Seconds: 4})
	for range 2 {
		if got := <-streams; got != "/v1/changes?stops=1" {
			t.Errorf("requested %s", got)
		}
	}
}

func wantStop(t *testing.T, stops <-chan podapi.Stop, want podapi.Stop) {
	t.Helper()
	select {
	case got := <-stops:
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	case <-time.After(time.Minute):
		t.Fatal("nothing was told")
	}
}

// An agent without stop requests has none.
func TestStopsOfAnOldAgent(t *testing.T) {
	asked := make(chan struct{}, 8)
	n := answering(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == podapi.PathStop {
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"code":"notFound","message":"m"}`)
			asked <- struct{}{}
			return
		}
		_, _ = io.WriteString(w, `{"changed":"none"}`+"\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	stops := n.Stops(t.Context())
	<-asked
	select {
	case stop := <-stops:
		t.Errorf("stop request %+v", stop)
	case <-asked:
		t.Error("the client asks again")
	case <-time.After(2 * time.Second):
	}
}
