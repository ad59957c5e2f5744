package admin

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestAgentNotRunning(t *testing.T) {
	stale := socketPath(t)
	abandon(t, stale)
	for name, path := range map[string]string{"no socket": socketPath(t), "stale socket": stale} {
		t.Run(name, func(t *testing.T) {
			_, err := NewClient(path).Launchers(t.Context())
			notRunning, ok := errors.AsType[*NotRunningError](err)
			if !ok {
				t.Fatalf("error %v, want a NotRunningError", err)
			}
			if notRunning.Socket != path ||
				!strings.Contains(err.Error(), "systemctl start mooring-agent") {
				t.Errorf("error %q lacks the socket or the remedy", err)
			}
		})
	}
}

func TestExplain(t *testing.T) {
	client := NewClient("/run/s")
	for _, errno := range []unix.Errno{unix.EACCES, unix.EPERM} {
		err := client.explain(errno)
		if _, ok := errors.AsType[*PermissionError](err); !ok || !errors.Is(err, errno) {
			t.Errorf("explain(%v) = %v, want a PermissionError around it", errno, err)
		}
	}
	other := errors.New("other")
	if err := client.explain(other); !errors.Is(err, other) ||
		!strings.Contains(err.Error(), "/run/s") {
		t.Errorf("explain(other) = %v", err)
	}
}

func TestInvalidAnswers(t *testing.T) {
	tests := map[string]struct {
		status     int
		body, want string
	}{
		"refused with a reason":    {http.StatusTeapot, `{"message":"no coffee"}`, "no coffee"},
		"refused without a reason": {http.StatusBadGateway, "<html>", "no reason given"},
		"not JSON":                 {http.StatusOK, "<html>", "read the agent's answer"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			path := socketPath(t)
			stranger := httptest.NewUnstartedServer(
				http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					w.WriteHeader(tt.status)
					_, _ = w.Write([]byte(tt.body))
				}))
			stranger.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
			stranger.Listener.Close()
			stranger.Listener = mustListen(t, path)
			stranger.Start()
			defer stranger.Close()
			_, err := NewClient(path).Launchers(t.Context())
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}
