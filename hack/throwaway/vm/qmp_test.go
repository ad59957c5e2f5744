package vm

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// serve answers each command of a QMP client with the next answer, after an event.
func serve(t *testing.T, path string, answers ...string) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprintln(conn, `{"QMP": {"version": {}, "capabilities": []}}`)
		in := bufio.NewScanner(conn)
		for _, answer := range answers {
			if !in.Scan() {
				return
			}
			fmt.Fprintln(conn, `{"event": "RESUME", "timestamp": {"seconds": 1}}`)
			fmt.Fprintln(conn, answer)
		}
		for in.Scan() { // until the client closes the connection
		}
	}()
}

func TestControl(t *testing.T) {
	path := filepath.Join(t.TempDir(), "qmp")
	serve(t, path, `{"return": {}}`, `{"return": {"status": "running"}}`,
		`{"error": {"class": "GenericError", "desc": "no such file"}}`)
	c, err := dialControl(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var status struct{ Status string }
	if err := c.execute(t.Context(), "query-status", nil, &status); err != nil ||
		status.Status != "running" {
		t.Errorf("got %+v, %v", status, err)
	}
	err = c.execute(t.Context(), "migrate", map[string]any{"uri": "file:x"}, nil)
	if err == nil || !strings.Contains(err.Error(), "migrate: no such file") {
		t.Errorf("got %v", err)
	}
}

// TestControlOfASilentQEMU ends the context while QEMU does not answer, and before it listens.
func TestControlOfASilentQEMU(t *testing.T) {
	late := errors.New("late")
	path := filepath.Join(t.TempDir(), "qmp")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Millisecond, late)
	defer cancel()
	if _, err := dialControl(ctx, path); !errors.Is(err, late) {
		t.Errorf("nobody listens: got %v", err)
	}
	serve(t, path, `{"return": {}}`)
	c, err := dialControl(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel = context.WithTimeoutCause(t.Context(), 10*time.Millisecond, late)
	defer cancel()
	if err := c.execute(ctx, "stop", nil, nil); !errors.Is(err, late) {
		t.Errorf("no answer: got %v", err)
	}
}

// TestGreetingOfASilentQEMU connects to a QEMU that accepts and says nothing.
func TestGreetingOfASilentQEMU(t *testing.T) {
	path := filepath.Join(t.TempDir(), "qmp")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	late := errors.New("late")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Millisecond, late)
	defer cancel()
	if _, err := dialControl(ctx, path); !errors.Is(err, late) {
		t.Errorf("got %v", err)
	}
}

// TestArgumentsOfASavedNode checks that a node is resumed with the devices that it was saved with.
func TestArgumentsOfASavedNode(t *testing.T) {
	base := Config{Kernel: "/k", Disk: "/d,1", Accelerator: TCG, Port: 1, CPUs: 2, MemoryMiB: 512,
		Forwards: []Forward{{Local: 2, Node: 6443}}}
	devices := func(s Saving) (found []string) {
		c := base
		c.Saving = &s
		args := c.args()
		for i, a := range args {
			if a == "-device" {
				found = append(found, args[i+1])
			}
		}
		all := strings.Join(args, " ")
		if !strings.Contains(all, ",hostfwd=tcp:127.0.0.1:2-10.0.2.15:6443") ||
			!strings.Contains(all, "file=/d,,1,") ||
			strings.Contains(all, "snapshot=on") == s.Writable ||
			strings.Contains(all, "-incoming file:") != (s.State != "") {
			t.Errorf("%+v: got %s", s, all)
		}
		return found
	}
	first := devices(Saving{Initramfs: "/i", Writable: true})
	again := devices(Saving{Initramfs: "/i", State: "/s"})
	if strings.Join(first, " ") != strings.Join(again, " ") {
		t.Errorf("saved with %v, resumed with %v", first, again)
	}
}
