package doctor

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// cri serves Version, and no other method of CRI.
type cri struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	err error
}

func (c cri) Version(context.Context, *runtimeapi.VersionRequest) (
	*runtimeapi.VersionResponse, error,
) {
	return &runtimeapi.VersionResponse{Version: "0.1.0", RuntimeName: "containerd",
		RuntimeVersion: "v2.4.2", RuntimeApiVersion: "v1"}, c.err
}

func socketPath(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "doctor")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "s.sock")
}

func listen(t *testing.T, path string) net.Listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func serveCRI(t *testing.T, service cri) (socket string) {
	t.Helper()
	socket = socketPath(t)
	server := grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(server, service)
	l := listen(t, socket)
	go func() { _ = server.Serve(l) }()
	t.Cleanup(server.Stop)
	return socket
}

// TestQueryRuntime checks the hand-written client against gRPC's own server.
func TestQueryRuntime(t *testing.T) {
	got, err := queryRuntime(t.Context(), serveCRI(t, cri{}))
	if want := (Runtime{"containerd", "v2.4.2", os.Getpid()}); got != want || err != nil {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
	_, err = queryRuntime(t.Context(), serveCRI(t,
		cri{err: status.Error(codes.Unimplemented, "no CRI here")}))
	if err == nil || !strings.Contains(err.Error(), "status 12") ||
		!strings.Contains(err.Error(), "no CRI here") {
		t.Errorf("error %v", err)
	}
	_, err = queryRuntime(t.Context(), socketPath(t))
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want one of no such file", err)
	}
}

func FuzzParseVersion(f *testing.F) {
	f.Add([]byte("\x0a\x050.1.0\x12\x0acontainerd\x1a\x06v2.4.2"))
	f.Add([]byte("\x12\xff"))
	f.Add([]byte{8, 1})
	f.Fuzz(func(_ *testing.T, message []byte) { _, _, _ = parseVersion(message) })
}

// TestPeers finds the client of a socket among sockets of all kinds.
func TestPeers(t *testing.T) {
	socket := socketPath(t)
	l := listen(t, socket)
	for range 200 {
		_ = listen(t, socketPath(t))
	}
	for _, kind := range []int{syscall.SOCK_STREAM, syscall.SOCK_DGRAM, syscall.SOCK_SEQPACKET} {
		pair, err := syscall.Socketpair(syscall.AF_UNIX, kind, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = syscall.Close(pair[0]), syscall.Close(pair[1]) })
	}
	if peers, err := peersOf(socket); len(peers) != 0 || err != nil {
		t.Fatalf("peers before a client connects: %v, %v", peers, err)
	}
	conn, err := dialUnix(t.Context(), socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	peers, err := peersOf(socket)
	if err != nil || len(peers) != 1 || peers[0].PID != os.Getpid() || peers[0].Name == "" {
		t.Errorf("got %v, %v; want this process", peers, err)
	}
	if pid := peerPID(conn); pid != os.Getpid() {
		t.Errorf("pid of the listener: %d, want this process", pid)
	}
}

// info returns an lstat result with this owner and mode.
func info(uid uint32, mode fs.FileMode) func() (os.FileInfo, error) {
	return func() (os.FileInfo, error) {
		return fs.Stat(fstest.MapFS{"f": {Mode: mode, Sys: &syscall.Stat_t{Uid: uid}}}, "f")
	}
}

func TestCheckTrusted(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]func() (os.FileInfo, error)
		want  string // empty: trusted
	}{
		"root's": {nil, ""},
		"another's": {map[string]func() (os.FileInfo, error){
			"/usr/bin/runc": info(1000, 0o755)}, "write to /usr/bin/runc"},
		"open to the group": {map[string]func() (os.FileInfo, error){
			"/usr/bin/runc": info(0, 0o775)}, "write to /usr/bin/runc"},
		"in an open folder": {map[string]func() (os.FileInfo, error){"/usr": info(0, 0o777)},
			"write to /usr"},
		"another's folder": {map[string]func() (os.FileInfo, error){"/": info(1000, 0o755)},
			"write to /"},
		"absent": {map[string]func() (os.FileInfo, error){"/usr/bin/runc": func() (os.FileInfo,
			error) {
			return nil, fs.ErrNotExist
		}}, "not exist"},
	} {
		err := checkTrusted("/usr/bin/runc", func(path string) (os.FileInfo, error) {
			if stat, ok := test.files[path]; ok {
				return stat()
			}
			return info(0, 0o755)()
		})
		if (err == nil) != (test.want == "") || err != nil &&
			!strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
	}
}

// A program runs only if it is trusted and the given process runs the same file.
func TestRunVersion(t *testing.T) {
	out, err := hostFS("/").runVersion(t.Context(), "/bin/cat", 0)
	if err != nil || !strings.Contains(out, "cat") {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := hostFS("/").runVersion(t.Context(), "/bin/cat", os.Getpid()); err == nil ||
		!strings.Contains(err.Error(), "runs another file") {
		t.Errorf("error %v", err)
	}
	if _, err := hostFS("/").runVersion(t.Context(), "/bin/false", 0); err == nil ||
		!strings.Contains(err.Error(), "run /") {
		t.Errorf("error %v", err)
	}
	own := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(own, []byte("#!/bin/sh\necho 1\n"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(own, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := hostFS("/").runVersion(t.Context(), own, 0); err == nil ||
		!strings.Contains(err.Error(), "users other than root") {
		t.Errorf("error %v", err)
	}
}

func TestEveryCheckAnswersOnThisMachine(t *testing.T) {
	r := Examine(t.Context(),
		ThisMachine(Options{RuntimeEndpoint: "unix://" + serveCRI(t, cri{}),
			AgentSocket: socketPath(t)}))
	if len(r.Findings) != len(checks()) {
		t.Errorf("%d findings of %d checks", len(r.Findings), len(checks()))
	}
	for _, f := range r.Findings {
		switch f.Check {
		case "kernel", "containerd":
			if f.Status == Unknown {
				t.Errorf("%+v", f)
			}
		}
		if f.Found == "" || f.Means == "" {
			t.Errorf("%+v", f)
		}
	}
}

func FuzzParseSocket(f *testing.F) {
	f.Add(
		[]byte(
			"\x01\x01\x01\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x08\x00\x02\x00\x02\x00\x00\x00"))
	f.Add(
		[]byte(
			"\x01\x01\x01\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x07\x00\x00\x00/a\x00\x00"))
	f.Add([]byte("short"))
	f.Fuzz(func(_ *testing.T, data []byte) { _, _, _ = parseSocket(data) })
}
