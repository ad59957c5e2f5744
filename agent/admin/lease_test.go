package admin

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/api/agentapi"
)

// leaseCall is a call of Leases.Lease.
type leaseCall struct {
	Namespace, Pod string
	Period         time.Duration
	Reason         string
}

type leases func(context.Context, leaseCall) (int, error)

func (l leases) Lease(ctx context.Context, namespace, pod string, period time.Duration,
	reason string) (int, error) {
	return l(ctx, leaseCall{namespace, pod, period, reason})
}

// recordLeases records the calls, and answers with a number of launchers.
func recordLeases(calls *[]leaseCall, launchers int) leases {
	return func(_ context.Context, l leaseCall) (int, error) {
		*calls = append(*calls, l)
		return launchers, nil
	}
}

func tracked(namespace, name, uid string) agentapi.Launcher {
	l := launcher(namespace, name, uid)
	l.Phase = agentapi.PhaseActive
	return l
}

func TestLease(t *testing.T) {
	var calls []leaseCall
	vm, other := tracked("ns", "vm", "1"), tracked("ns", "other", "2")
	server := testServer(vm, other, launcher("ns", "vm", "0"))
	server.Leases = recordLeases(&calls, 1)
	client, _ := startServer(t, server)

	held, err := client.Lease(t.Context(), "ns", "vm",
		agentapi.LeaseRequest{Seconds: 90, Reason: "migration"})
	if err != nil {
		t.Fatal(err)
	}
	ended, err := client.EndLease(t.Context(), "ns", "vm")
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string][]agentapi.Launcher{"held": held, "ended": ended} {
		if diff := cmp.Diff([]agentapi.Launcher{vm}, got); diff != "" {
			t.Errorf("launchers %s (-want +got):\n%s", name, diff)
		}
	}
	want := []leaseCall{{"ns", "vm", 90 * time.Second, "migration"}, {"ns", "vm", 0, ""}}
	if diff := cmp.Diff(want, calls); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestLeaseNotFound(t *testing.T) {
	var calls []leaseCall
	server := testServer(launcher("ns", "vm", "1"))
	server.Leases = recordLeases(&calls, 0)
	client, _ := startServer(t, server)
	_, err := client.EndLease(t.Context(), "ns", "vm")
	if _, ok := errors.AsType[*NotFoundError](err); !ok ||
		!strings.Contains(err.Error(), "pod ns/vm has no launcher") {
		t.Errorf("error %v, want a NotFoundError that names the pod", err)
	}
}

func TestRefusedLeases(t *testing.T) {
	const good = `{"seconds": 60, "reason": "migration"}`
	tests := map[string]struct {
		leases Leases
		body   string
		status int
		want   string
	}{
		"no tracker": {nil, good, http.StatusNotImplemented, "cannot track processes"},
		"failed": {
			leases(func(context.Context, leaseCall) (int, error) { return 0, errors.New("busy") }),
			good, http.StatusServiceUnavailable, "busy; repeat the request",
		},
		"no JSON":       {nil, "5m", http.StatusBadRequest, `want {"seconds": 300`},
		"nothing":       {nil, "", http.StatusBadRequest, `want {"seconds": 300`},
		"more after it": {nil, good + "{}", http.StatusBadRequest, "nothing after it"},
		"unknown field": {nil, `{"minutes": 5}`, http.StatusBadRequest,
			`unknown field "minutes"`},
		"too much": {nil, `{"reason": "` + strings.Repeat("x", maxLeaseRequest) + `"}`,
			http.StatusBadRequest, "too large"},
		"no time": {nil, `{"reason": "migration"}`, http.StatusBadRequest,
			"seconds: 0: want 1 to 3600"},
		"too long": {nil, `{"seconds": 3601, "reason": "m"}`, http.StatusBadRequest,
			"seconds: 3601: want 1 to 3600"},
		"half a second": {nil, `{"seconds": 0.5, "reason": "m"}`, http.StatusBadRequest,
			"number 0.5"},
		"without purpose": {nil, `{"seconds": 60}`, http.StatusBadRequest, `reason: "": want`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			server := testServer(tracked("ns", "vm", "1"))
			server.Leases = tt.leases
			answerIs(t, putLease(t, server, tt.body), tt.status, tt.want)
		})
	}
}

// A busy agent must answer before the client's timeout.
func TestLeaseTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := testServer(tracked("ns", "vm", "1"))
		server.Leases = leases(func(ctx context.Context, _ leaseCall) (int, error) {
			<-ctx.Done()
			return 0, ctx.Err()
		})
		answerIs(t, putLease(t, server, `{"seconds": 60, "reason": "m"}`),
			http.StatusServiceUnavailable,
			"deadline exceeded; repeat the request")
	})
}

func putLease(t *testing.T, server *Server, body string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	path := agentapi.PathLaunchers + "/ns/vm" + agentapi.SuffixLease
	server.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPut, path,
		strings.NewReader(body)))
	return w
}

func answerIs(t *testing.T, got *httptest.ResponseRecorder, status int, want string) {
	t.Helper()
	var answer agentapi.Error
	if err := json.Unmarshal(got.Body.Bytes(), &answer); err != nil {
		t.Fatal(err)
	}
	if got.Code != status || !strings.Contains(answer.Message, want) {
		t.Errorf("%d %q, want %d with %q", got.Code, answer.Message, status, want)
	}
}

// Every accepted request is within the bounds of a lease.
func FuzzLease(f *testing.F) {
	for _, seed := range []string{
		`{"seconds": 60, "reason": "migration"}`, `{"seconds": -1, "reason": "m"}`,
		`{"seconds": 1e3, "reason": "\u001b[2J"}`,
		`{"seconds": 9223372036854775807, "reason": "m"}`, `{"seconds": 60, "reason": "\ud800"}`,
		`[]`, ``,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		request, err := readLease(strings.NewReader(body))
		if err != nil {
			return
		}
		if p := request.Period(); p < agentapi.MinLease || p > agentapi.MaxLease {
			t.Errorf("%q: a lease for %s", body, p)
		}
		if strings.ContainsAny(request.Reason, "\n\r\t\x1b\u009b") ||
			strings.TrimSpace(request.Reason) == "" {
			t.Errorf("%q: reason %q", body, request.Reason)
		}
	})
}
