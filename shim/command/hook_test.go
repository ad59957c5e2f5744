package command

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/mooring-vm/mooring/agent/podserver"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/api/policy"
	"github.com/mooring-vm/mooring/shim/headroom"
)

var testHost = headroom.Host{Memory: 1024, CPUs: 2}

func listen(t *testing.T, socket string) net.Listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// serve answers a pod as the agent does.
func serve(t *testing.T, socket string, headroom podapi.Headroom) {
	t.Helper()
	l, log := listen(t, socket), slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() {
		node := &podserver.Node{
			Policy: policy.NewCurrent(&policy.Policy{Headroom: policy.Headroom(headroom)})}
		done <- podserver.Serve(ctx, l, node.Pod("a"), log)
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func readCapacities(
	t *testing.T,
	ctx context.Context, //nolint:revive // t comes first
	socket, args string,
) (headroom.Host, error) {
	t.Helper()
	var o headroom.Options
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.AddFlags(flags)
	if err := flags.Parse(strings.Fields(args)); err != nil {
		t.Fatal(err)
	}
	return capacitySource(testHost, socket, flags, slog.New(slog.DiscardHandler))(ctx)
}

// The hook reads the node policy's capacities from the pod's socket. Flags win.
func TestPolicyCapacities(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	serve(t, socket, podapi.Headroom{Memory: 4 << 30, CPUs: 8})
	for args, want := range map[string]headroom.Host{
		"":                                     {Memory: 4096, CPUs: 8},
		"--cpu-capacity 4":                     {Memory: 4096, CPUs: 2},
		"--memory-capacity 0":                  {Memory: 1024, CPUs: 8},
		"--cpu-capacity 4 --memory-capacity 5": testHost,
	} {
		if got, err := readCapacities(t, t.Context(), socket, args); got != want || err != nil {
			t.Errorf("%s: %+v, %v, want %+v", args, got, err, want)
		}
	}
}

// The host's capacities apply without an agent, without capacities in its policy, and with an agent
// that does not know the request.
func TestHostCapacities(t *testing.T) {
	dir := t.TempDir()
	silent, old := filepath.Join(dir, "silent"), filepath.Join(dir, "old")
	serve(t, silent, podapi.Headroom{})
	answer(t, old, http.StatusNotFound, `{"code":"notFound","message":"no such resource"}`)
	for _, socket := range []string{filepath.Join(dir, "none", "agent.sock"), silent, old} {
		if got, err := readCapacities(t, t.Context(), socket, ""); got != testHost || err != nil {
			t.Errorf("%s: %+v, %v", socket, got, err)
		}
	}
}

// The hook waits for an agent that is away, and reports other failures. With wrong capacities the
// VM would keep the wrong headroom.
func TestUnknownCapacities(t *testing.T) {
	dir := t.TempDir()
	away, failing := filepath.Join(dir, "away"), filepath.Join(dir, "failing")
	l := listen(t, away)
	l.(*net.UnixListener).SetUnlinkOnClose(false) //nolint:forcetypeassert // of a unix socket
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	answer(t, failing, http.StatusInternalServerError, `{"code":"failed","message":"out of order"}`)
	for socket, want := range map[string]string{
		away: "read the node policy's capacities: no connection to the agent",

		filepath.Join(dir, "not yet"): "no connection to the agent",

		failing: "out of order",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*agentPollInterval)
		_, err := readCapacities(t, ctx, socket, "")
		cancel()
		if err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "--memory-capacity") {
			t.Errorf("%s: %v, want %s", socket, err, want)
		}
		const flags = "--memory-capacity 1 --cpu-capacity 1"
		if got, err := readCapacities(t, ctx, socket, flags); got != testHost || err != nil {
			t.Errorf("%s, with flags: %+v, %v", socket, got, err)
		}
	}
}

// The hook uses the answer of an agent that returns in time.
func TestReturningAgent(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	var requests int
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests++; requests == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte(`{"memoryCapacity":4294967296}`))
	})
	handle(t, socket, handler)
	got, err := readCapacities(t, t.Context(), socket, "")
	if got != (headroom.Host{Memory: 4096, CPUs: 2}) || err != nil || requests != 2 {
		t.Errorf("%+v, %v, after %d requests", got, err, requests)
	}
}

func answer(t *testing.T, socket string, status int, body string) {
	t.Helper()
	handle(t, socket, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
}

func handle(t *testing.T, socket string, handler http.Handler) {
	t.Helper()
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	l := listen(t, socket)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(l) // until Close
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-done
	})
}
