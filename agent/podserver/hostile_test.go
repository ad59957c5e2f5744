package podserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/agent"
)

// send sends raw bytes and returns the status and the code of the answer.
func send(t *testing.T, socket, raw string) (status int, code string) {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	must(t, conn.SetDeadline(time.Now().Add(deadline)))
	_, _ = io.WriteString(conn, raw) // the server may close the connection first
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	var answer podapi.Error
	// net/http writes some answers itself
	_ = json.NewDecoder(io.LimitReader(response.Body, podapi.MaxAnswer)).Decode(&answer)
	return response.StatusCode, answer.Code
}

func request(method, path, body string) string {
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nConnection: close\r\n"+
		"\r\n%s", method, path, len(body), body)
}

// The server refuses malformed and excessive requests without any effect.
func TestHostileRequests(t *testing.T) {
	r := newRig(t)
	granted := &leases{rig: r}
	r.LeasesUnlessHeld(granted)
	socket := r.serve(t, "a")
	long := strings.Repeat("x", 64<<10)
	for name, c := range map[string]struct {
		raw    string
		status int
		code   string
	}{
		"unknown field": {request("PUT", podapi.PathLock, `{"atLeast":1,"uid":"b"}`), 400,
			podapi.CodeInvalid},
		"another process": {request("PUT", podapi.PathLock, `{"atLeast":1,"pid":201}`), 400,
			podapi.CodeInvalid},
		"negative": {request("PUT", podapi.PathLock, `{"atLeast":-1}`), 400,
			podapi.CodeInvalid},
		"beyond an int64": {request("PUT", podapi.PathLock,
			`{"atLeast":18446744073709551615}`), 400, podapi.CodeInvalid},
		"a float": {request("PUT", podapi.PathLock, `{"atLeast":1e18}`), 400,
			podapi.CodeInvalid},
		"the largest": {request("PUT", podapi.PathLock,
			`{"atLeast":9223372036854775807}`), 403, podapi.CodeRefused},
		"unlimited": {request("PUT", podapi.PathLock, `{"atLeast":"unlimited"}`), 403,
			podapi.CodeRefused},
		"beyond the ceiling": {request("PUT", podapi.PathLock, `{"atLeast":8589934593}`), 403,
			podapi.CodeRefused},
		"below what was given": {request("PUT", podapi.PathLock, `{"atMost":0}`), 403,
			podapi.CodeRefused},
		"two bodies": {request("PUT", podapi.PathLock, `{"atMost":0}{"atLeast":1}`),
			400, podapi.CodeInvalid},
		"too large a body": {request("PUT", podapi.PathLock,
			`{"atLeast":`+strings.Repeat(" ", podapi.MaxRequest)+`1}`), 413, podapi.CodeTooLarge},
		"too large a report": {request("PUT", podapi.PathReport, `{"error":"`+long+`"}`), 413,
			podapi.CodeTooLarge},
		"too large a header": {"GET " + podapi.PathObserved + " HTTP/1.1\r\nHost: x\r\nX: " +
			long + "\r\n\r\n", 431, ""},
		"too long a path": {"GET /" + long + " HTTP/1.1\r\nHost: x\r\n\r\n", 431, ""},
		"a lie about its length": {"PUT " + podapi.PathLock + " HTTP/1.1\r\nHost: x\r\n" +
			"Content-Length: -1\r\n\r\n", 400, ""},
		"no HTTP":            {"\x00\x01\x02\r\n\r\n", 400, ""},
		"another pod's path": {request("GET", "/v1/pods/b/seen", ""), 404, podapi.CodeNotFound},
		"out of the root":    {request("GET", "/v1/../../pods/b/agent.sock", ""), 307, ""},
		"encoded":            {request("GET", "/v1/%2e%2e%2fseen", ""), 404, podapi.CodeNotFound},
		"the admin's": {request("GET", "/v1alpha1/launchers", ""), 404,
			podapi.CodeNotFound},
		"a proxy's": {request("GET", "http://169.254.169.254/v1/other", ""), 404,
			podapi.CodeNotFound},
		"another method": {request("POST", podapi.PathLock, `{"atLeast":1}`), 404,
			podapi.CodeNotFound},
		"an endless hold": {request("PUT", podapi.PathHold, `{"seconds":9223372036854775807}`),
			400, podapi.CodeInvalid},
		"an endless lease": {request("PUT", podapi.PathLease, `{"seconds":601,"reason":"x"}`),
			400, podapi.CodeInvalid},
		"a lease of long ago": {request("PUT", podapi.PathLease,
			`{"seconds":-9223372036854775808,"reason":"x"}`), 400, podapi.CodeInvalid},
		"a lease for nothing": {request("PUT", podapi.PathLease, `{"seconds":1,"reason":""}`), 400,
			podapi.CodeInvalid},
		"another pod's lease": {request("PUT", podapi.PathLease,
			`{"seconds":1,"reason":"x","pod":"pod-b"}`), 400, podapi.CodeInvalid},
		"a lease in red": {request("PUT", podapi.PathLease, `{"seconds":1,"reason":"\u001b[31m"}`),
			400, podapi.CodeInvalid},
		"an endless need": {request("PUT", podapi.PathMemoryRequirement, `{"bytes":"unlimited"}`),
			400, podapi.CodeInvalid},
		"no text": {request("PUT", podapi.PathReport, `{"state":"Done","error":"\u001b[2J"}`), 400,
			podapi.CodeInvalid},
	} {
		status, code := send(t, socket, c.raw)
		if status != c.status || code != c.code {
			t.Errorf("%s: answered %d %q, want %d %q", name, status, code, c.status, c.code)
		}
	}
	if r.set() != 0 || r.lock(t, "a") != 2*gi || r.lock(t, "b") != 2*gi || r.granted() != 4*gi ||
		granted.set != 0 {
		t.Errorf("memory locks were set %d times, account %d, %d leases: want no effect", r.set(),
			r.granted(), granted.set)
	}
	if events := r.recorder.Events(); len(events) > 0 {
		t.Errorf("events: %v", events)
	}
}

// A pod that floods its socket gets few answers. Another pod gets all of its answers.
func TestHostileFlood(t *testing.T) {
	r := newRig(t)
	hostile, other := r.serve(t, "a"), agent.New(r.serve(t, "b"))
	slow := hoard(t, hostile, 600)
	stop := flood(t, hostile)
	for i := range 20 {
		if err := other.RaiseLock(t.Context(), (2+uint64(i%2))*gi); err != nil {
			t.Fatalf("another pod is not served: %v", err)
		}
	}
	if got := r.lock(t, "b"); got != 3*gi {
		t.Errorf("the other pod's lock is %d", got)
	}
	for _, conn := range slow {
		conn.Close()
	}
	stop()
	eventually(t, "an answer to the pod itself, once it stops", func() bool {
		_, err := agent.New(hostile).Limits(t.Context())
		return err == nil
	})
}

// hoard opens n connections, as far as the kernel allows it, and starts a request on each.
func hoard(t *testing.T, socket string, n int) (open []net.Conn) {
	t.Helper()
	for range n {
		conn, err := (&net.Dialer{Timeout: 100 * time.Millisecond}).Dial("unix", socket)
		if err != nil {
			break // the queue of the socket is full
		}
		t.Cleanup(func() { conn.Close() })
		_, _ = io.WriteString(conn, "GET /v1/seen HTTP/1.1\r\nHost: x\r\nX-Slow: ")
		open = append(open, conn)
	}
	if len(open) < 100 {
		t.Fatalf("only %d connections were possible", len(open))
	}
	return open
}

// flood sends requests until the caller stops it.
func flood(t *testing.T, socket string) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		n := agent.New(socket)
		for ctx.Err() == nil {
			_ = n.RaiseLock(ctx, 8*gi)
		}
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return stop
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(deadline); !cond(); {
		if time.Now().After(end) {
			t.Fatalf("timed out waiting for %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// The server refuses requests above the rate limit without executing them.
func TestHostileRate(t *testing.T) {
	r := newRig(t)
	socket := r.serve(t, "a")
	client := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _,
		_ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	defer client.CloseIdleConnections()
	busy := 0
	for range 200 {
		response, err := client.Get("http://agent" + podapi.PathDesired)
		must(t, err)
		_, _ = io.Copy(io.Discard, response.Body)
		response.Body.Close()
		if response.StatusCode == http.StatusTooManyRequests {
			busy++
		}
	}
	if busy == 0 {
		t.Error("200 requests in a row were answered")
	}
}

// Streams are few, and end with the connection.
func TestHostileStreams(t *testing.T) {
	r := newRig(t)
	socket := r.serve(t, "a")
	stream := func() (net.Conn, int) {
		conn, err := net.Dial("unix", socket)
		must(t, err)
		must(t, conn.SetDeadline(time.Now().Add(deadline)))
		_, err = io.WriteString(conn, "GET "+podapi.PathChanges+" HTTP/1.1\r\nHost: x\r\n\r\n")
		must(t, err)
		//nolint:bodyclose // closing would wait for the end of the stream; the connection is closed
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		must(t, err)
		return conn, response.StatusCode
	}
	var open []net.Conn
	for range 4 {
		conn, status := stream()
		open = append(open, conn)
		if status != http.StatusOK {
			t.Fatalf("status %d", status)
		}
	}
	conn, status := stream()
	conn.Close()
	if status != http.StatusTooManyRequests {
		t.Errorf("status %d of a fifth stream", status)
	}
	for _, conn := range open {
		conn.Close()
	}
	eventually(t, "room for a stream", func() bool {
		conn, status := stream()
		conn.Close()
		return status == http.StatusOK
	})
}

// The server closes a connection whose request stays incomplete.
func TestHostileSlowloris(t *testing.T) {
	if testing.Short() {
		t.Skip("left out with -short: waits for the server's time-outs")
	}
	r := newRig(t)
	conn, err := net.Dial("unix", r.serve(t, "a"))
	must(t, err)
	defer conn.Close()
	must(t, conn.SetDeadline(time.Now().Add(deadline)))
	_, err = io.WriteString(conn, "PUT "+podapi.PathLock+" HTTP/1.1\r\nHost: x\r\n"+
		"Content-Length: 15\r\n\r\n{")
	must(t, err)
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection was not closed")
	}
	if r.set() != 0 {
		t.Error("a memory lock was set")
	}
}

// In mode observe the agent changes no limit.
func TestObserve(t *testing.T) {
	r := newRigWith(t, strings.Replace(rules, "enforce", "observe", 1))
	n := agent.New(r.serve(t, "a"))
	wantCode(t, n.RaiseLock(t.Context(), 3*gi), podapi.CodeRefused)
	wantCode(t, n.LowerLock(t.Context(), 3*gi), podapi.CodeRefused)
	wantCode(t, n.RequireMemory(t.Context(), 3*gi), podapi.CodeRefused)
	if _, err := n.Limits(t.Context()); err != nil || r.set() != 0 {
		t.Errorf("error %v, %d memory locks set", err, r.set())
	}
}
