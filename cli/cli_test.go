package cli

import (
	"bytes"
	"context"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mooring-vm/mooring/agent/admin"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/internal/buildinfo"
)

var update = flag.Bool("update", false, "write the golden files")

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// agent is a fake agent with fixed answers on a real socket.
type agent struct {
	socket string
	events *admin.Ring
	leases *testLaunchersAPI
	node   atomic.Pointer[agentapi.Node]
	stop   func()
}

func startAgent(t *testing.T, launchers ...agentapi.Launcher) *agent {
	t.Helper()
	t.Setenv(clientcmd.RecommendedConfigPathEnvVar, "") // not the developer's cluster
	a := &agent{
		socket: filepath.Join(t.TempDir(), "agent.sock"), events: admin.NewRing(10, 10),
		leases: &testLaunchersAPI{launchers: launchers},
	}
	a.node.Store(&testNode)
	server := &admin.Server{
		Launchers: a.leases,
		Leases:    a.leases,
		Sizes:     a.leases,
		Node:      func() agentapi.Node { return *a.node.Load() },
		Events:    a.events,
		Logger:    slog.New(slog.DiscardHandler),
	}
	l, err := admin.Listen(t.Context(), a.socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := server.Serve(ctx, l); err != nil {
			t.Error(err)
		}
	}()
	a.stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(a.stop)
	return a
}

type result struct {
	code        int
	out, errOut string
}

func run(ctx context.Context, t *testing.T, socket string, args ...string) result {
	t.Helper()
	var out, errOut bytes.Buffer
	program := testProgram(&out, &errOut)
	code := program.Run(ctx, append(args, "--socket", socket))
	return result{code, out.String(), errOut.String()}
}

func testProgram(out, errOut *bytes.Buffer) *Program {
	return &Program{
		Name:   "/usr/local/bin/mooring",
		Build:  buildinfo.Info{Version: "v0.1.0", Revision: "abc", GoVersion: "go1.26"},
		Out:    out,
		ErrOut: errOut,
		Now:    func() time.Time { return now },
	}
}

// golden compares got with a file below testdata; -update writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("output differs from %s (-want +got):\n%s", path, diff)
	}
}

func TestGolden(t *testing.T) {
	tests := map[string][]string{
		"ps":                {"ps"},
		"ps-json":           {"ps", "-o", "json"},
		"inspect-applied":   {"inspect", "vms/vfio"},
		"inspect-differs":   {"inspect", "uid-differs"},
		"inspect-refused":   {"inspect", "refused"},
		"inspect-observed":  {"inspect", "lab/observed"},
		"inspect-twice":     {"inspect", "vms/again"},
		"inspect-json":      {"inspect", "vms/differs", "--output=json"},
		"ps-wide":           {"ps", "-o", "wide"},
		"version":           {"version"},
		"version-json":      {"version", "-o", "json"},
		"help":              {"--help"},
		"help-inspect":      {"help", "inspect"},
		"help-lease":        {"help", "lease"},
		"help-resize":       {"help", "resize"},
		"hostile-character": {"inspect", "hostile"},
	}
	goldens(t, startAgent(t, testLaunchers()...), tests)
}

// goldens runs commands, expects success, and compares the output with the golden files.
func goldens(t *testing.T, a *agent, tests map[string][]string) {
	t.Helper()
	for name, args := range tests {
		t.Run(name, func(t *testing.T) {
			got := run(t.Context(), t, a.socket, args...)
			if got.code != ExitOK || got.errOut != "" {
				t.Errorf("exit code %d, stderr %q", got.code, got.errOut)
			}
			golden(t, name, got.out)
		})
	}
}

func TestKubectlPlugin(t *testing.T) {
	var out, errOut bytes.Buffer
	program := testProgram(&out, &errOut)
	program.Name = "/usr/local/bin/kubectl-mooring"
	if code := program.Run(t.Context(), []string{"ps", "--help"}); code != ExitOK {
		t.Errorf("exit code %d", code)
	}
	if want := "kubectl mooring ps [flags]"; !strings.Contains(out.String(), want) {
		t.Errorf("help lacks %q:\n%s", want, out.String())
	}
}

func TestNoLaunchers(t *testing.T) {
	a := startAgent(t)
	got := run(t.Context(), t, a.socket, "ps")
	if want := (result{ExitOK, "", "no launchers on this node\n"}); got != want {
		t.Errorf("ps = %+v, want %+v", got, want)
	}
	got = run(t.Context(), t, a.socket, "ps", "-o", "json")
	if want := (result{ExitOK, "[]\n", ""}); got != want {
		t.Errorf("ps -o json = %+v, want %+v", got, want)
	}
}

func TestErrors(t *testing.T) {
	tests := map[string]struct {
		args []string
		code int
		want string
	}{
		"unknown command": {[]string{"pss"}, ExitUsage,
			`unknown command "pss": did you mean ps?`},
		"unlike any command": {[]string{"frobnicate"}, ExitUsage, "`mooring --help` lists"},
		"unknown flag":       {[]string{"ps", "--colour"}, ExitUsage, "--colour"},
		"unknown format": {[]string{"ps", "-o", "xml"}, ExitUsage,
			`invalid argument "xml" for "-o, --output" flag: want table, wide, json, yaml, name, ` +
				`jsonpath=TEMPLATE, jsonpath-as-json=TEMPLATE or jsonpath-file=FILE`},
		"too many": {[]string{"ps", "x"}, ExitUsage,
			"mooring ps: got 1 arguments, want none"},
		"too few":     {[]string{"inspect"}, ExitUsage, "want POD"},
		"half a name": {[]string{"inspect", "vms/"}, ExitUsage, "want NAMESPACE/NAME"},
		"three parts": {[]string{"inspect", "a/b/c"}, ExitUsage, "want NAMESPACE/NAME"},
		"ambiguous": {[]string{"inspect", "vfio"}, ExitUsage,
			"want one of lab/vfio, vms/vfio"},
		"no such pod": {[]string{"inspect", "vms/none"}, ExitNotFound,
			"pod vms/none has no launcher"},
		"no such name":     {[]string{"inspect", "none"}, ExitNotFound, `no pod "none"`},
		"watch two":        {[]string{"watch", "a", "b"}, ExitUsage, "at most one"},
		"version argument": {[]string{"version", "x"}, ExitUsage, "want none"},
	}
	a := startAgent(t, testLaunchers()...)
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := run(t.Context(), t, a.socket, tt.args...)
			if got.code != tt.code || !strings.Contains(got.errOut, tt.want) || got.out != "" {
				t.Errorf("got %+v, want exit code %d and %q", got, tt.code, tt.want)
			}
		})
	}
}

func TestNoAgent(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "none.sock")
	for _, args := range [][]string{{"ps"}, {"inspect", "a/b"}, {"inspect", "a"}, {"watch"}} {
		got := run(t.Context(), t, socket, args...)
		if got.code != ExitNotRunning || !strings.Contains(got.errOut, "not running at "+socket) {
			t.Errorf("%v: %+v, want exit code %d", args, got, ExitNotRunning)
		}
	}
	got := run(t.Context(), t, socket, "version")
	if got.code != ExitOK || !strings.Contains(got.out, "v0.1.0") ||
		!strings.Contains(got.errOut, "not running") {
		t.Errorf("version: %+v, want success, the tool's version and a remark", got)
	}
}
