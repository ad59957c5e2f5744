package podserver_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/agent/podserver"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/lifecycle/registry"
	"github.com/mooring-vm/mooring/lifecycle/tie"
	"github.com/mooring-vm/mooring/shim/agent"
)

// asks has the agent ask a pod for the end of its VM; nil: not any more.
func (r *rig) asks(uid string, stop *tie.ShutdownRequest) {
	r.registry.Update("ID-"+uid, func(l *registry.Launcher) { l.Stop = stop })
}

func (r *rig) soon(seconds int) *tie.ShutdownRequest {
	due := r.Clock.Now().Add(time.Duration(seconds)*time.Second + time.Millisecond)
	return &tie.ShutdownRequest{Why: "the launcher is gone", Due: due}
}

// told notes who takes requests.
type told struct {
	mu  sync.Mutex
	all []string
}

func (n *told) takes(uid string, takes bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, fmt.Sprint(uid, " ", takes))
}

func (n *told) said() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.all)
}

func TestStop(t *testing.T) {
	r := newRig(t)
	want := func(uid string, want podapi.Stop) {
		t.Helper()
		got, err := r.Pod(uid).Stop()
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%v (-want +got)\n%s", err, diff)
		}
	}
	want("a", podapi.Stop{})
	r.asks("a", r.soon(30))
	want("a", podapi.Stop{Requested: true, Reason: "the launcher is gone", Seconds: 30})
	want("b", podapi.Stop{})
	r.registry.SetState("ID-a", agentapi.StateStopped, 0) // which is when there is most to ask for
	want("a", podapi.Stop{Requested: true, Reason: "the launcher is gone", Seconds: 30})
	r.asks("a", r.soon(-5))
	want("a", podapi.Stop{Requested: true, Reason: "the launcher is gone"})
	r.ready = false // of one that is known, it is known already
	want("a", podapi.Stop{Requested: true, Reason: "the launcher is gone"})
	_, err := r.Pod("b").Stop()
	if refusal, ok := errors.AsType[*podserver.Refusal](err); !ok || refusal.Code != podapi.CodeStarting {
		t.Errorf("error %v of an agent that does not know all pods yet", err)
	}
}

// TestStopIsTold: by the stream that a client has for it, from its beginning.
func TestStopIsTold(t *testing.T) {
	r, n := newRig(t), &told{}
	r.SetStopHandler = n.takes
	r.asks("a", r.soon(3600))
	stops := agent.New(r.serve(t, "a")).Stops(t.Context())
	if stop := <-stops; !stop.Requested || stop.TimeLeft() < time.Minute {
		t.Errorf("told %+v", stop)
	}
	if said := n.said(); !slices.Equal(said, []string{"a true"}) {
		t.Errorf("the agent is told %v", said)
	}
	r.asks("a", nil)
	if stop := <-stops; stop.Requested {
		t.Errorf("told %+v", stop)
	}
}

// TestTakes: whoever says so takes requests, as long as there is any such stream and a
// moment longer.
func TestTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, n := newRig(t), &told{}
		r.SetStopHandler = n.takes
		want := func(want ...string) {
			t.Helper()
			if said := n.said(); !slices.Equal(said, want) {
				t.Fatalf("the agent is told %v, want %v", said, want)
			}
		}
		first, second := r.Pod("a").HandleStops(), r.Pod("a").HandleStops()
		want("a true")
		first()
		<-time.After(time.Minute)
		want("a true")
		second()
		<-time.After(900 * time.Millisecond)
		third := r.Pod("a").HandleStops() // it is back
		<-time.After(time.Minute)
		want("a true")
		third()
		<-time.After(time.Second)
		synctest.Wait()
		want("a true", "a false")
		r.Pod("a").HandleStops()()
		r.Forget("a") // its directory is gone, and comes again
		fourth := r.Pod("a").HandleStops()
		<-time.After(time.Minute)
		want("a true", "a false", "a true")
		fourth()
		<-time.After(time.Second)
		synctest.Wait()
		want("a true", "a false", "a true", "a false")
	})
}

// TestHostileTakes: however often a pod says that it takes requests, and does not any
// more, the agent is told of little.
func TestHostileTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, n := newRig(t), &told{}
		r.SetStopHandler = n.takes
		for range 1000 {
			r.Pod("a").HandleStops()()
			<-time.After(10 * time.Millisecond)
		}
		<-time.After(time.Minute)
		synctest.Wait()
		if said := n.said(); !slices.Equal(said, []string{"a true", "a false"}) {
			t.Errorf("in 10 s the agent is told %d times", len(said))
		}
		for range 10 {
			r.Pod("a").HandleStops()()
			<-time.After(1100 * time.Millisecond)
		}
		synctest.Wait()
		if said := n.said(); len(said) != 22 {
			t.Errorf("in 11 s more the agent is told %d times", len(said)-2)
		}
	})
}

// TestHostileStopStreams: they are streams like others, and who gets none has not said
// anything.
func TestHostileStopStreams(t *testing.T) {
	r, n := newRig(t), &told{}
	r.SetStopHandler = n.takes
	socket := r.serve(t, "a")
	stream := func(query string) (net.Conn, int) {
		conn, err := net.Dial("unix", socket)
		must(t, err)
		t.Cleanup(func() { conn.Close() })
		must(t, conn.SetDeadline(time.Now().Add(deadline)))
		_, err = io.WriteString(conn, "GET "+podapi.PathChanges+query+" HTTP/1.1\r\nHost: x\r\n\r\n")
		must(t, err)
		response, err := http.ReadResponse(bufio.NewReader(conn), nil) //nolint:bodyclose // that would wait for the end of the stream; the connection is closed
		must(t, err)
		return conn, response.StatusCode
	}
	for range 4 {
		if _, status := stream(""); status != http.StatusOK {
			t.Fatalf("status %d", status)
		}
	}
	if _, status := stream("?stops=1"); status != http.StatusTooManyRequests {
		t.Errorf("status %d of a fifth stream", status)
	}
	if said := n.said(); len(said) > 0 {
		t.Errorf("the agent is told %v", said)
	}
}

func TestHostileStopQueries(t *testing.T) {
	r, n := newRig(t), &told{}
	r.SetStopHandler = n.takes
	socket := r.serve(t, "a")
	for _, query := range []string{
		"?stops=0", "?stops=2", "?stops=", "?stops", "?stops=true", "?stops=1&stops=1", "?stops=1&pod=b", "?uid=b", "?stops=%zz", "?stops=1;x=2", "?Stops=1",
	} {
		if status, code := send(t, socket, request("GET", podapi.PathChanges+query, "")); status != http.StatusBadRequest || code != podapi.CodeInvalid {
			t.Errorf("%s: answered %d %q", query, status, code)
		}
	}
	for _, c := range []struct {
		method, path string
		status       int
	}{{"PUT", podapi.PathStop, 404}, {"DELETE", podapi.PathStop, 404}, {"POST", podapi.PathStop, 404}, {"GET", podapi.PathStop, 200}} {
		if status, _ := send(t, socket, request(c.method, c.path, "")); status != c.status {
			t.Errorf("%s %s: answered %d, want %d", c.method, c.path, status, c.status)
		}
	}
	if said := n.said(); len(said) > 0 {
		t.Errorf("the agent is told %v", said)
	}
}
