package agent_test

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/shim/agent"
	"github.com/mooring-vm/mooring/shim/resize"
)

// answering returns a client of a fake agent with this handler. Package podserver tests the client
// with a real agent.
func answering(t *testing.T, handler http.HandlerFunc) *agent.Client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(handler)
	server.Listener.Close()
	server.Listener = l
	server.Start()
	t.Cleanup(server.Close)
	return agent.New(socket)
}

func TestAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		away   bool
		code   string
	}{
		"refused": {403, `{"code":"refused","message":"too much"}`, false,
			podapi.CodeRefused},
		"migrating": {409, `{"code":"migrating","message":"m"}`, false,
			podapi.CodeMigrating},
		"starting":         {503, `{"code":"starting","message":"m"}`, true, podapi.CodeStarting},
		"busy":             {429, `{"code":"busy","message":"m"}`, true, podapi.CodeBusy},
		"no reason":        {500, `x`, false, ""},
		"no JSON":          {200, `x`, true, ""},
		"half an answer":   {200, `{"podMax":`, true, ""},
		"an endless one":   {200, `{"x":"` + strings.Repeat("x", 1<<20), true, ""},
		"a negative limit": {200, `{"podMax":-1}`, true, ""},
	} {
		n := answering(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		})
		_, err := n.Limits(t.Context())
		refused, ok := errors.AsType[*agent.RefusedError](err)
		if err == nil || errors.Is(err, resize.ErrAgent) != c.away || ok && refused.Code != c.code {
			t.Errorf("%s: error %v", name, err)
		}
		if errors.Is(err, resize.ErrMigrating) != (c.code == podapi.CodeMigrating) {
			t.Errorf("%s: error %v, and a migration", name, err)
		}
		if errors.Is(err, resize.ErrPolicy) != (c.code == podapi.CodeRefused) {
			t.Errorf("%s: error %v, and the policy", name, err)
		}
	}
}

// An older agent does not know the growth of a hold.
func TestHoldOfOlderAgent(t *testing.T) {
	var requests []string
	n := answering(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		requests = append(requests, string(body))
		if strings.Contains(string(body), "growth") {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"code":"invalid","message":"unknown field growth"}`)
			return
		}
		_, _ = io.WriteString(w, "{}")
	})
	if err := n.Hold(t.Context(), time.Second, 5); err != nil || len(requests) != 2 ||
		requests[1] != `{"seconds":1}` {
		t.Errorf("%v, requests %q", err, requests)
	}
}

// The agent can read each request.
func TestQuestions(t *testing.T) {
	var got string
	n := answering(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got = r.Method + " " + r.URL.Path + " " + string(body)
		_, _ = io.WriteString(w, "{}")
	})
	for _, c := range []struct {
		call func() error
		want string
	}{
		{func() error { return n.RaiseLock(t.Context(), 5) }, `PUT /v1/lock {"atLeast":5}`},
		{func() error { return n.RaiseLock(t.Context(), resize.NoLimit) },
			`PUT /v1/lock {"atLeast":"unlimited"}`},
		{func() error { return n.LowerLock(t.Context(), 5) }, `PUT /v1/lock {"atMost":5}`},
		{func() error { return n.RequireMemory(t.Context(), 0) }, `PUT /v1/need {"bytes":0}`},
		{func() error { return n.Hold(t.Context(), 1500*time.Millisecond, 0) },
			`PUT /v1/hold {"seconds":2}`},
		{func() error { return n.Hold(t.Context(), time.Second, 5) },
			`PUT /v1/hold {"seconds":1,"growth":5}`},
		{func() error { return n.Hold(t.Context(), 100*time.Hour, 0) },
			`PUT /v1/hold {"seconds":3600}`},
		{func() error { return n.Hold(t.Context(), -1, 0) }, `DELETE /v1/hold `},
		{func() error { return n.Lease(t.Context(), 1500*time.Millisecond, "migration") },
			`PUT /v1/lease {"seconds":2,"reason":"migration"}`},
		{func() error { return n.Lease(t.Context(), time.Hour, "migration") },
			`PUT /v1/lease {"seconds":600,"reason":"migration"}`},
		{func() error { return n.Lease(t.Context(), 0, "") }, `DELETE /v1/lease `},
	} {
		if err := c.call(); got != c.want || err != nil {
			t.Errorf("sent %s, %v, want %s", got, err, c.want)
		}
	}
}
