package podserver_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-vm/mooring/api/podapi"
)

func atLeast(bytes uint64) podapi.Lock {
	a := podapi.Amount(bytes)
	return podapi.Lock{AtLeast: &a}
}

func atMost(bytes uint64) podapi.Lock {
	a := podapi.Amount(bytes)
	return podapi.Lock{AtMost: &a}
}

// The log has a line for a changed memory lock, but few lines in a row.
func TestLockIsLogged(t *testing.T) {
	for name, test := range map[string]struct {
		requests []podapi.Lock // repeated 500 times
		lines    int
	}{
		"raised once":      {[]podapi.Lock{atLeast(5 * gi)}, 1},
		"raised twice":     {[]podapi.Lock{atLeast(4 * gi), atLeast(5 * gi)}, 2},
		"low already":      {[]podapi.Lock{atMost(5 * gi)}, 0},
		"refused":          {[]podapi.Lock{atLeast(9 * gi), atMost(gi)}, 0},
		"up and down":      {[]podapi.Lock{atLeast(5 * gi), atMost(2 * gi)}, 7},
		"up and half down": {[]podapi.Lock{atLeast(5 * gi), atMost(3 * gi)}, 7},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log strings.Builder
				r := newRig(t)
				r.Logger = slog.New(slog.NewTextHandler(&log, nil))
				flood := func() {
					for range 500 {
						for _, request := range test.requests {
							_ = r.Pod("a").Lock(request)
						}
					}
				}
				flood()
				<-time.After(20 * time.Second) // allows one more line
				flood()
				if n := strings.Count(log.String(), "\n"); n != test.lines {
					t.Errorf("%d lines, want %d:\n%s", n, test.lines, log.String())
				}
			})
		})
	}
}

func TestLockLine(t *testing.T) {
	r := newRig(t)
	var log strings.Builder
	r.Logger = slog.New(slog.NewTextHandler(&log, nil))
	must(t, r.Pod("a").Lock(atLeast(5*gi)))
	must(t, r.Pod("a").Lock(atMost(3*gi)))
	for i, want := range []string{"uid=a pid=101 memlock=5Gi before=2Gi",
		"uid=a pid=101 memlock=3Gi before=5Gi"} {
		if line := strings.Split(log.String(), "\n")[i]; !strings.HasSuffix(line, want) {
			t.Errorf("logged %s, want %s", line, want)
		}
	}
}
