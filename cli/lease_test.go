package cli

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/podapi"
)

// testLaunchersAPI has the launchers of a fake agent. It grants leases to launchers with a phase.
type testLaunchersAPI struct {
	mu        sync.Mutex
	launchers []agentapi.Launcher
	err       error
	report    func(size api.Size, dryRun bool) podapi.Report // the pod's answer to a size
}

func (l *testLaunchersAPI) Launchers() []agentapi.Launcher {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.launchers)
}

func (l *testLaunchersAPI) Lease(
	_ context.Context, namespace, pod string, period time.Duration, reason string,
) (leased int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range l.launchers {
		launcher := &l.launchers[i]
		if launcher.Pod.Namespace != namespace || launcher.Pod.Name != pod || launcher.Phase == "" {
			continue
		}
		leased++
		launcher.Lease = nil
		if period > 0 {
			launcher.Lease = &agentapi.Lease{Reason: reason, Until: now.Add(period)}
		}
	}
	return leased, l.err
}

func TestLease(t *testing.T) {
	const pod = "vms/virt-launcher-db-x7k2p"
	until := func(period time.Duration) string {
		return now.Add(period).Local().Format(time.DateTime)
	}
	tests := []struct {
		args []string
		want string
	}{
		{[]string{pod, "--for", "5m", "--reason", "migration to node-2"},
			pod + "/compute: lease until " + until(5*time.Minute) + " for: migration to node-2\n"},
		{[]string{"virt-launcher-db-x7k2p", "--reason=again", "--for=1h"},
			pod + "/compute: lease until " + until(time.Hour) + " for: again\n"},
		{[]string{"uid-virt-launcher-db-x7k2p", "--release"}, pod + "/compute: no lease\n"},
		{[]string{pod, "--release"}, pod + "/compute: no lease\n"},
	}
	a := startAgent(t, withVMs()...)
	for _, tt := range tests {
		got := run(t.Context(), t, a.socket, append([]string{"lease"}, tt.args...)...)
		if want := (result{ExitOK, tt.want, ""}); got != want {
			t.Errorf("lease %s = %+v, want %+v", strings.Join(tt.args, " "), got, want)
		}
	}
}

func TestLeaseJSON(t *testing.T) {
	a := startAgent(t, attended())
	goldens(t, a, map[string][]string{
		"lease-json": {"lease", "virt-launcher-db-x7k2p", "--for", "90s", "--reason", "migration",
			"-o", "json"},
	})
}

func TestLeaseErrors(t *testing.T) {
	tests := map[string]struct {
		args []string
		code int
		want string
	}{
		"no pod": {[]string{"--release"}, ExitUsage, "want POD"},
		"no action": {[]string{"orphan"}, ExitUsage, "want --for DURATION and --reason TEXT, " +
			"or --release"},
		"only a reason": {[]string{"orphan", "--reason", "m"}, ExitUsage, "want --for DURATION"},
		"both": {[]string{"orphan", "--release", "--for", "5m"}, ExitUsage,
			"--release stands alone"},
		"no duration": {[]string{"orphan", "--for", "5"}, ExitUsage,
			`invalid argument "5" for "--for" flag`},
		"too long": {[]string{"orphan", "--for", "2h", "--reason", "m"}, ExitUsage,
			"--for 2h0m0s: want whole seconds, 1s to 1h0m0s"},
		"no time": {[]string{"orphan", "--for", "0s", "--reason", "m"}, ExitUsage,
			"--for 0s: want whole seconds"},
		"no second": {[]string{"orphan", "--for", "1500ms", "--reason", "m"}, ExitUsage,
			"--for 1.5s: want whole seconds"},
		"no reason": {[]string{"orphan", "--for", "5m"}, ExitUsage,
			`--reason: "": want one line`},
		"two lines": {[]string{"orphan", "--for", "5m", "--reason", "a\nb"}, ExitUsage,
			`--reason: "a\nb": want one line`},
		"ambiguous": {[]string{"twin", "--release"}, ExitUsage, "want one of a/twin, b/twin"},
		"unknown":   {[]string{"none", "--release"}, ExitNotFound, `no pod "none"`},
		"not tracked": {[]string{"a/twin", "--release"}, ExitNotFound,
			"pod a/twin has no launcher with tracked VM processes on this node"},
	}
	a := startAgent(t, append(withVMs(), running("a", "twin", time.Hour),
		running("b", "twin", time.Hour))...)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := run(t.Context(), t, a.socket, append([]string{"lease"}, tt.args...)...)
			if got.code != tt.code || !strings.Contains(got.errOut, tt.want) || got.out != "" {
				t.Errorf("got %+v, want exit code %d and %q", got, tt.code, tt.want)
			}
		})
	}
}

func TestLeaseWithoutAgent(t *testing.T) {
	a := startAgent(t, withVMs()...)
	a.leases.err = errors.New("busy")
	got := run(t.Context(), t, a.socket, "lease", "orphan", "--release")
	if got.code != ExitFailure || !strings.Contains(got.errOut, "busy; repeat the request") {
		t.Errorf("busy agent: %+v, want exit code %d and the reason", got, ExitFailure)
	}
	got = run(t.Context(), t, filepath.Join(t.TempDir(), "none"), "lease", "orphan", "--release")
	if got.code != ExitNotRunning {
		t.Errorf("no agent: %+v, want exit code %d", got, ExitNotRunning)
	}
}
