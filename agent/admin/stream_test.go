package admin

import (
	"context"
	"errors"
	"io"
	"iter"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/api/agentapi"
)

func TestEventsBacklogThenLive(t *testing.T) {
	server := testServer()
	record(server.Events, 0, 2)
	client, stop := startServer(t, server)

	next, done := iter.Pull2(client.Events(t.Context()))
	defer done()
	for i := range 4 {
		event, err, _ := next()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(numbered(i), event); diff != "" {
			t.Errorf("event %d (-want +got):\n%s", i, diff)
		}
		// Record the third and the fourth event while the stream is open.
		record(server.Events, i+2, i+3)
	}
	stop()
	for {
		_, err, ok := next()
		if !ok {
			t.Fatal("the stream ended without an error")
		}
		if err != nil {
			if !errors.Is(err, ErrStreamEnded) {
				t.Errorf("the stream ended with %v, want ErrStreamEnded", err)
			}
			return
		}
	}
}

func TestEventsEndWithTheirContext(t *testing.T) {
	client, _ := startServer(t, testServer())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, err := range client.Events(ctx) {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want context.Canceled", err)
		}
	}
}

// blockedWriter stands for a connection without a reader. Its first write blocks until
// release is closed.
type blockedWriter struct {
	http.ResponseWriter
	writing chan struct{}
	release chan struct{}
	body    strings.Builder
}

func (b *blockedWriter) Header() http.Header { return http.Header{} }
func (b *blockedWriter) WriteHeader(int)     {}
func (b *blockedWriter) Flush()              {}

func (b *blockedWriter) Write(p []byte) (int, error) {
	select {
	case b.writing <- struct{}{}:
		<-b.release
	default:
	}
	return b.body.Write(p)
}

func TestSlowStreamEndsWithCutOff(t *testing.T) {
	server := testServer()
	server.Events = NewRing(1, 2)
	w := &blockedWriter{writing: make(chan struct{}, 1), release: make(chan struct{})}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, agentapi.PathEvents,
		http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	record(server.Events, 0, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		server.streamEvents(w, request)
	}()
	<-w.writing
	record(server.Events, 1, 9)
	close(w.release)
	<-done

	lines := strings.Split(strings.TrimSpace(w.body.String()), "\n")
	last := lines[len(lines)-1]
	if len(lines) != 4 || !strings.Contains(last, string(ReasonCutOff)) {
		t.Errorf("got\n%s\nwant 3 events and then %s", w.body.String(), ReasonCutOff)
	}
}

func TestClientReportsACutOff(t *testing.T) {
	server := testServer()
	server.Events.Record(cutOff(ErrSlow))
	client, _ := startServer(t, server)
	for _, err := range client.Events(t.Context()) {
		if err == nil || !strings.Contains(err.Error(), "cut the event stream off") {
			t.Errorf("error %v", err)
		}
	}
}

// Over a real socket, the agent gives up a reader that stops reading.
func TestReaderThatStopsReading(t *testing.T) {
	server := testServer()
	server.WriteTimeout = 100 * time.Millisecond
	client, _ := startServer(t, server)
	conn, err := net.Dial("unix", client.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn,
		"GET "+agentapi.PathEvents+" HTTP/1.1\r\nHost: agent\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	waitForSubscribers(ctx, t, server.Events, 1)
	big := strings.Repeat("x", 1<<20)
	for i := range 10 {
		server.Events.Record(agentapi.Event{Message: big + strconv.Itoa(i)})
	}
	waitForSubscribers(ctx, t, server.Events, 0)
}

func waitForSubscribers(ctx context.Context, t *testing.T, r *Ring, want int) {
	t.Helper()
	count := func() int {
		r.mu.Lock()
		defer r.mu.Unlock()
		return len(r.subscribers)
	}
	for count() != want {
		select {
		case <-ctx.Done():
			t.Fatalf("%d subscribers, want %d", count(), want)
		case <-time.After(5 * time.Millisecond):
		}
	}
}
