package channel_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/mooring-vm/mooring/hack/throwaway/channel"
	"github.com/mooring-vm/mooring/hack/throwaway/channel/server"
)

func newKey(t *testing.T) ssh.Signer {
	t.Helper()
	key, err := channel.NewKey(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// serve runs the node's side in this process.
func serve(t *testing.T) channel.Target {
	t.Helper()
	host, client := newKey(t), newKey(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := server.New(host, client.PublicKey())
	go s.Serve(l) //nolint:errcheck // ends with Close
	t.Cleanup(func() { _ = s.Close() })
	ready, ok := channel.ParseReady("systemd: " + server.Ready(host.PublicKey()) + "\r\n")
	if !ok {
		t.Fatal("the ready line is not recognised")
	}
	return channel.Target{Address: l.Addr().String(), HostKey: ready, Key: client}
}

func connect(t *testing.T, target channel.Target) *channel.Client {
	t.Helper()
	c, err := channel.Connect(t.Context(), target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestStreamsAndExitCode(t *testing.T) {
	c := connect(t, serve(t))
	var out, errs bytes.Buffer
	err := c.Run(t.Context(), channel.Command{
		Args:  []string{"sh", "-c", `cat; echo "$1" >&2; exit 7`, "sh", `it's "quoted" $HOME`},
		Stdin: strings.NewReader("in"), Stdout: &out, Stderr: &errs,
	})
	var exit *channel.ExitError
	if !errors.As(err, &exit) || exit.Code != 7 {
		t.Errorf("got %v, want exit code 7", err)
	}
	if out.String() != "in" || errs.String() != "it's \"quoted\" $HOME\n" {
		t.Errorf("stdout %q, stderr %q", out.String(), errs.String())
	}
}

func TestCommandEndsWhileStdinStaysOpen(t *testing.T) {
	c := connect(t, serve(t))
	in, _ := io.Pipe()
	if err := c.Run(t.Context(), channel.Command{Args: []string{"true"}, Stdin: in}); err != nil {
		t.Error(err)
	}
}

func TestSignalsReachTheCommand(t *testing.T) {
	c := connect(t, serve(t))
	for signal, want := range map[os.Signal]channel.ExitError{
		syscall.SIGTERM: {Code: 143, Signal: "TERM"},
		syscall.SIGUSR1: {Code: 138, Signal: "USR1"},
	} {
		signals := make(chan os.Signal, 1)
		out := &notifier{seen: make(chan struct{})}
		go func() {
			<-out.seen
			signals <- signal
		}()
		err := c.Run(t.Context(),
			channel.Command{Args: []string{"sh", "-c", "echo up; exec sleep 60"}, Stdout: out,
				Signals: signals})
		var exit *channel.ExitError
		if !errors.As(err, &exit) || exit.Code != want.Code || exit.Signal != want.Signal {
			t.Errorf("%v: got %v, want %v", signal, err, &want)
		}
	}
}

// notifier closes seen at the first byte.
type notifier struct {
	seen chan struct{}
	once sync.Once
}

func (n *notifier) Write(p []byte) (int, error) {
	n.once.Do(func() { close(n.seen) })
	return len(p), nil
}

func TestManyCallsAtOnce(t *testing.T) {
	c := connect(t, serve(t))
	var wg sync.WaitGroup
	for i := range 32 {
		wg.Go(func() {
			want := fmt.Sprint(i)
			if got, err := c.Output(t.Context(), "echo", want); err != nil || got != want {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
		})
	}
	wg.Wait()
}

func TestContextEndsTheCommandAndItsChildren(t *testing.T) {
	c := connect(t, serve(t))
	ctx, cancel := context.WithCancelCause(t.Context())
	mark := filepath.Join(t.TempDir(), "pid")
	go func() {
		for !exists(mark) {
			time.Sleep(5 * time.Millisecond)
		}
		cancel(errors.New("enough"))
	}()
	err := c.Run(ctx,
		channel.Command{Args: []string{"sh", "-c", "trap '' TERM; sleep 61 & echo $! > " + mark +
			".tmp; mv " + mark + ".tmp " + mark + "; wait; sleep 61"}})
	if err == nil || !strings.Contains(err.Error(), "enough") {
		t.Errorf("got %v, want the context's cause", err)
	}
	waitGone(t, mark)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// waitGone waits for the end of a process with its pid in a file.
func waitGone(t *testing.T, file string) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	stat := "/proc/" + strings.TrimSpace(string(b)) + "/stat"
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		s, err := os.ReadFile(stat)
		if err != nil || strings.Contains(string(s), ") Z ") {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("still running: %s", s)
		}
	}
}

func TestLostNodeEndsEveryCall(t *testing.T) {
	target := serve(t)
	p := newProxy(t, target.Address)
	target.Address = p.l.Addr().String()
	c := connect(t, target)
	out := &notifier{seen: make(chan struct{})}
	done := make(chan error, 1)
	in, _ := io.Pipe() // a Stdin that never ends must not block the call
	go func() {
		done <- c.Run(context.Background(),
			channel.Command{Args: []string{"sh", "-c", "echo up; exec sleep 60"}, Stdin: in,
				Stdout: out})
	}()
	<-out.seen
	p.cut()
	if err := <-done; !errors.Is(err, channel.ErrLost) {
		t.Errorf("running call: got %v, want ErrLost", err)
	}
	if _, err := c.Output(t.Context(), "true"); !errors.Is(err, channel.ErrLost) {
		t.Errorf("later call: got %v, want ErrLost", err)
	}
	if err := c.Push(t.Context(), os.DevNull, "/tmp/x", 0o600); !errors.Is(err, channel.ErrLost) {
		t.Errorf("later push: got %v, want ErrLost", err)
	}
}

func TestSilentNodeIsLost(t *testing.T) {
	target := serve(t)
	p := newProxy(t, target.Address)
	target.Address = p.l.Addr().String()
	target.Keepalive = channel.Keepalive{Every: 10 * time.Millisecond,
		Timeout: 200 * time.Millisecond}
	c := connect(t, target)
	if _, err := c.Output(t.Context(), "true"); err != nil {
		t.Fatal(err)
	}
	p.mute()
	if err := c.Run(context.Background(),
		channel.Command{Args: []string{"sleep", "60"}}); !errors.Is(err, channel.ErrLost) {
		t.Errorf("got %v, want ErrLost", err)
	}
}

func TestOtherKeysAreRefused(t *testing.T) {
	target := serve(t)
	wrongKey := target
	wrongKey.Key = newKey(t)
	if _, err := channel.Connect(t.Context(), wrongKey); err == nil {
		t.Error("a stranger got in")
	}
	wrongHost := target
	wrongHost.HostKey = string(ssh.MarshalAuthorizedKey(newKey(t).PublicKey()))
	if _, err := channel.Connect(t.Context(), wrongHost); err == nil {
		t.Error("a strange host was trusted")
	}
}

func TestFilesArriveWhole(t *testing.T) {
	c, dir := connect(t, serve(t)), t.TempDir()
	local, remote, back := filepath.Join(dir, "a"), filepath.Join(dir, "new", "b"),
		filepath.Join(dir, "back", "c")
	want := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	if err := os.WriteFile(local, want, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := c.Push(t.Context(), local, remote, 0o751); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(remote); err != nil || info.Mode().Perm() != 0o751 {
		t.Errorf("mode %v, %v, want 0751", info.Mode(), err)
	}
	if err := c.Pull(t.Context(), remote, back); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(back); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes came back, %v, want %d", len(got), err, len(want))
	}
}

func TestFailedPushLeavesTheOldFile(t *testing.T) {
	c, remote := connect(t, serve(t)), filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(remote, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	boom := io.MultiReader(strings.NewReader("new"), failing{})
	if err := c.PushFrom(t.Context(), boom, remote, 0o600); err == nil {
		t.Error("no error from a reader that fails")
	}
	if b, _ := os.ReadFile(remote); string(b) != "old" {
		t.Errorf("the file holds %q, want the old content", b)
	}
	if left, _ := filepath.Glob(remote + ".*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("boom") }

func TestDialReachesSockets(t *testing.T) {
	c := connect(t, serve(t))
	for _, network := range []string{"unix", "tcp"} {
		address := "127.0.0.1:0"
		if network == "unix" {
			address = filepath.Join(t.TempDir(), "s")
		}
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go echo(l)
		conn, err := c.Dial(t.Context(), network, l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, "ping"); err != nil {
			t.Error(err)
		}
		_ = conn.(interface{ CloseWrite() error }).CloseWrite()
		if b, err := io.ReadAll(conn); err != nil || string(b) != "ping" {
			t.Errorf("%s: got %q, %v", network, b, err)
		}
		_ = conn.Close()
	}
	if _, err := c.Dial(t.Context(), "unix", "/nonexistent"); err == nil ||
		!strings.Contains(err.Error(), "no such file") {
		t.Errorf("got %v, want the node's error", err)
	}
}

func echo(l net.Listener) {
	conn, err := l.Accept()
	if err != nil {
		return
	}
	_, _ = io.Copy(conn, conn)
	_ = conn.Close()
}

func TestTerminal(t *testing.T) {
	c := connect(t, serve(t))
	var out bytes.Buffer
	err := c.Run(t.Context(), channel.Command{Args: []string{"stty", "size"}, Stdout: &out,
		PTY: &channel.Size{Rows: 41, Columns: 97}})
	if err != nil || strings.TrimSpace(out.String()) != "41 97" {
		t.Errorf("got %q, %v, want a terminal of 41 97", out.String(), err)
	}
}

func TestListen(t *testing.T) {
	c := connect(t, serve(t))
	l, err := c.Listen(freeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Listen(l.Addr().String()); err == nil {
		t.Error("the same port was given twice")
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(conn, conn)
			_ = conn.Close()
		}
	}()
	for range 2 {
		echoes(t, l.Addr().String())
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if conn, err := net.Dial("tcp", l.Addr().String()); err == nil {
		_ = conn.Close()
		t.Error("the port is still open after Close")
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l.Addr().String()
}

func echoes(t *testing.T, address string) {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("there and back")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len("there and back"))
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "there and back" {
		t.Errorf("got %q, %v", got, err)
	}
}
