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

// asks sets the stop request for a pod; nil: none.
func (r *rig) requestStop(uid string, stop *tie.ShutdownRequest) {
	r.registry.Update("ID-"+uid, func(l *registry.Launcher) { l.Stop = stop })
}

func (r *rig) stopIn(seconds int) *tie.ShutdownRequest {
	due := r.Clock.Now().Add(time.Duration(seconds)*time.Second + time.Millisecond)
	return &tie.ShutdownRequest{Why: "the launcher is gone", Due: due}
}

// handlerCalls records calls of SetStopHandler.
type handlerCalls struct {
	mu  sync.Mutex
	all []string
}

func (n *handlerCalls) record(uid string, present bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, fmt.Sprint(uid, " ", present))
}

func (n *handlerCalls) list() []string {
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
	r.requestStop("a", r.stopIn(30))
	want("a", podapi.Stop{Requested: true, Reason: "the launcher is gone", Seconds: 30})
	want("b", podapi.Stop{})
	r.registry.SetState("ID-a", agentapi.StateStopped, 0) // stop requests are most likely now
	want("a", podapi.Stop{Requested: true, Reason: "the launcher is gone", Seconds: 30})
	r.requestStop("a", r.stopIn(-5))
	want("a", podapi.Stop{Requested: true, Reason: "the launcher is gone"})
	r.ready = false // a known request needs no list of pods
	want("a", podapi.Stop{Requested: true, Reason: "the launcher is gone"})
	_, err := r.Pod("b").Stop()
	if refusal, ok := errors.AsType[*podserver.Refusal](err); !ok ||
		refusal.Code != podapi.CodeStarting {
		t.Errorf("error %v before the agent knows all pods", err)
	}
}

// The stream of a stop handler reports stop requests from its beginning.
func TestStreamReportsStop(t *testing.T) {
	r, n := newRig(t), &handlerCalls{}
	r.SetStopHandler = n.record
	r.requestStop("a", r.stopIn(3600))
	stops := agent.New(r.serve(t, "a")).Stops(t.Context())
	if stop := <-stops; !stop.Requested || stop.TimeLeft() < time.Minute {
		t.Errorf("stop %+v", stop)
	}
	if calls := n.list(); !slices.Equal(calls, []string{"a true"}) {
		t.Errorf("calls %v", calls)
	}
	r.requestStop("a", nil)
	if stop := <-stops; stop.Requested {
		t.Errorf("stop %+v", stop)
	}
}

// A pod has a stop handler while any such stream is open, and a moment longer.
func TestStopHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, n := newRig(t), &handlerCalls{}
		r.SetStopHandler = n.record
		want := func(want ...string) {
			t.Helper()
			if calls := n.list(); !slices.Equal(calls, want) {
				t.Fatalf("calls %v, want %v", calls, want)
			}
		}
		first, second := r.Pod("a").HandleStops(), r.Pod("a").HandleStops()
		want("a true")
		first()
		<-time.After(time.Minute)
		want("a true")
		second()
		<-time.After(900 * time.Millisecond)
		third := r.Pod("a").HandleStops() // reconnected
		<-time.After(time.Minute)
		want("a true")
		third()
		<-time.After(time.Second)
		synctest.Wait()
		want("a true", "a false")
		r.Pod("a").HandleStops()()
		r.Forget("a") // the pod's directory is gone and comes again
		fourth := r.Pod("a").HandleStops()
		<-time.After(time.Minute)
		want("a true", "a false", "a true")
		fourth()
		<-time.After(time.Second)
		synctest.Wait()
		want("a true", "a false", "a true", "a false")
	})
}

// A pod that registers and unregisters stop handlers without pause causes few calls.
func TestHostileStopHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, n := newRig(t), &handlerCalls{}
		r.SetStopHandler = n.record
		for range 1000 {
			r.Pod("a").HandleStops()()
			<-time.After(10 * time.Millisecond)
		}
		<-time.After(time.Minute)
		synctest.Wait()
		if calls := n.list(); !slices.Equal(calls, []string{"a true", "a false"}) {
			t.Errorf("%d calls in 10 s", len(calls))
		}
		for range 10 {
			r.Pod("a").HandleStops()()
			<-time.After(1100 * time.Millisecond)
		}
		synctest.Wait()
		if calls := n.list(); len(calls) != 22 {
			t.Errorf("%d more calls in 11 s", len(calls)-2)
		}
	})
}

// Streams of stop handlers count as streams. A client without a stream is not a stop handler.
func TestHostileStopStreams(t *testing.T) {
	r, n := newRig(t), &handlerCalls{}
	r.SetStopHandler = n.record
	socket := r.serve(t, "a")
	stream := func(query string) (net.Conn, int) {
		conn, err := net.Dial("unix", socket)
		must(t, err)
		t.Cleanup(func() { conn.Close() })
		must(t, conn.SetDeadline(time.Now().Add(deadline)))
		_, err = io.WriteString(conn, "GET "+podapi.PathChanges+query+
			" HTTP/1.1\r\nHost: x\r\n\r\n")
		must(t, err)
		//nolint:bodyclose // closing would wait for the end of the stream; the connection is closed
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
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
	if calls := n.list(); len(calls) > 0 {
		t.Errorf("calls %v", calls)
	}
}

func TestHostileStopQueries(t *testing.T) {
	r, n := newRig(t), &handlerCalls{}
	r.SetStopHandler = n.record
	socket := r.serve(t, "a")
	for _, query := range []string{
		"?stops=0", "?stops=2", "?stops=", "?stops", "?stops=true", "?stops=1&stops=1",
		"?stops=1&pod=b", "?uid=b", "?stops=%zz", "?stops=1;x=2", "?Stops=1",
	} {
		if status, code := send(t, socket, request("GET", podapi.PathChanges+query, "")); status !=
			http.StatusBadRequest || code != podapi.CodeInvalid {
			t.Errorf("%s: answered %d %q", query, status, code)
		}
	}
	for _, c := range []struct {
		method, path string
		status       int
	}{{"PUT", podapi.PathStop, 404}, {"DELETE", podapi.PathStop, 404},
		{"POST", podapi.PathStop, 404}, {"GET", podapi.PathStop, 200}} {
		if status, _ := send(t, socket, request(c.method, c.path, "")); status != c.status {
			t.Errorf("%s %s: answered %d, want %d", c.method, c.path, status, c.status)
		}
	}
	if calls := n.list(); len(calls) > 0 {
		t.Errorf("calls %v", calls)
	}
}
