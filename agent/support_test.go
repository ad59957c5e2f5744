package agent

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/cli"
	"github.com/mooring-vm/mooring/internal/buildinfo"
	"github.com/mooring-vm/mooring/lifecycle/poddir"
)

// deadline bounds the wait of a test for an event.
const deadline = 30 * time.Second

const testPolicy = `
apiVersion: mooring.dev/v1alpha1
kind: NodePolicy
mode: enforce
memlock:
  nodeMax: 64Gi
rules:
- name: tenants
  namespaces: [vms]
  memlock: {max: 16Gi}
- name: named
  namespaces: [named]
  serviceAccounts: [trusted]
  memlock: {max: 16Gi}
`

// testConfig returns the configuration of an agent with a tmpfs of its own and without a
// runtime. It skips the test on machines without cgroup v2 or the right to mount, unless
// MOORING_REQUIRE_CGROUP2 is set.
func testConfig(t *testing.T) Config {
	t.Helper()
	dir := t.TempDir()
	config := DefaultConfig()
	config.Root = mountRoot(t, dir)
	config.Cgroup = cgroup2(t)
	config.NRISocket = filepath.Join(dir, "nri.sock")
	config.Listen = "127.0.0.1:0"
	config.BPFDir = "" // no pins: they would outlive the test
	config.Policy = filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(config.Policy, []byte(testPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	return config
}

func mountRoot(t *testing.T, dir string) string {
	t.Helper()
	root := filepath.Join(dir, "run")
	err := poddir.Mount(root)
	if errors.Is(err, unix.EPERM) {
		skip(t, "this process may not mount")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(root, 0); err != nil {
			t.Errorf("unmount %s: %v", root, err)
		}
	})
	return root
}

func cgroup2(t *testing.T) string {
	t.Helper()
	for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		var st unix.Statfs_t
		if unix.Statfs(mount, &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC &&
			unix.Access(mount, unix.W_OK) == nil {
			return mount
		}
	}
	skip(t, "no writable cgroup v2 hierarchy")
	return ""
}

func skip(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("MOORING_REQUIRE_CGROUP2") != "" {
		t.Fatal(why + ", and MOORING_REQUIRE_CGROUP2 is set")
	}
	t.Skip(why)
}

// running is an agent that runs until stop is called.
type running struct {
	*Agent
	log  *syncBuffer
	stop func() error
}

func start(t *testing.T, config Config) *running {
	t.Helper()
	r := &running{log: &syncBuffer{}}
	var err error
	r.Agent, err = New(t.Context(), config, buildinfo.Info{Version: "v1"}, textLogger(r.log))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	r.stop = sync.OnceValue(func() error {
		cancel()
		return receive(t, done, "the agent's end")
	})
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("log of the agent:\n%s", r.log)
		}
	})
	return r
}

func textLogger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func receive[T any](t *testing.T, from <-chan T, what string) (value T) {
	t.Helper()
	select {
	case value = <-from:
	case <-time.After(deadline):
		t.Errorf("never came: %s", what)
	}
	return value
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(deadline); !cond(); {
		if time.Now().After(end) {
			t.Fatalf("never came: %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// get sends a request to the side port.
func (r *running) get(t *testing.T, path string) (status int, body string) {
	t.Helper()
	response, err := http.Get("http://" + r.listeners.side.Addr().String() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(content)
}

func (r *running) waitReady(t *testing.T) {
	t.Helper()
	eventually(t, "readiness", func() bool {
		status, _ := r.get(t, "/readyz")
		return status == http.StatusOK
	})
}

// mooring runs the command-line tool.
func (r *running) mooring(args ...string) (code int, out, errOut string) {
	var stdout, stderr bytes.Buffer
	program := &cli.Program{Name: "mooring", Out: &stdout, ErrOut: &stderr, Now: time.Now}
	code = program.Run(context.Background(), append(args, "--socket",
		filepath.Join(r.config.Root, socketName)))
	return code, stdout.String(), stderr.String()
}

// syncBuffer is a buffer for concurrent use.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
