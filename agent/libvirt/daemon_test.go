package libvirt

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/digitalocean/go-libvirt"
)

// always stands for a domain that still runs.
func always() error { return nil }

// listen serves each connection to a socket with handle.
func listen(t *testing.T, handle func(net.Conn)) Daemon {
	t.Helper()
	dir, err := os.MkdirTemp("", "virt")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	l, err := new(net.ListenConfig).Listen(t.Context(), "unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			go func() { defer conn.Close(); handle(conn) }()
		}
	}()
	return Daemon{socket}
}

func TestHangingDaemonDoesNotBlockForever(t *testing.T) {
	requested := make(chan struct{}, 1)
	d := listen(t, func(conn net.Conn) {
		_, _ = conn.Read(make([]byte, 1))
		requested <- struct{}{}
		_, _ = io.Copy(io.Discard, conn)
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-requested; cancel() }()
	if err := d.Shutdown(ctx, vm1.UUID, always); !errors.Is(err, context.Canceled) ||
		!strings.Contains(err.Error(), d.Socket) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

// An invalid answer leads to an error, not to a panic or an endless wait.
func TestBrokenDaemons(t *testing.T) {
	message := func(length uint32, rest string) func(net.Conn) {
		return func(conn net.Conn) {
			_, _ = conn.Read(make([]byte, 28))
			_, _ = conn.Write(append(binary.BigEndian.AppendUint32(nil, length), rest...))
		}
	}
	for name, handle := range map[string]func(net.Conn){
		"closes":            func(net.Conn) {},
		"closes on request": func(conn net.Conn) { _, _ = conn.Read(make([]byte, 28)) },
		"no length":         message(0, strings.Repeat("\x00", 100)),
		"too short":         message(27, strings.Repeat("\x00", 100)),
		"too long":          message(1<<32-1, strings.Repeat("\xff", 100)),
		"cut":               message(100, "\x00\x00"),
		"of another":        message(28, strings.Repeat("\xff", 24)),
		"another's protocol": func(conn net.Conn) {
			_, _ = io.WriteString(conn, "HTTP/1.1 400 Bad Request\r\n\r\n")
		},
	} {
		d := listen(t, handle)
		if err := d.Shutdown(t.Context(), vm1.UUID, always); err == nil ||
			errors.Is(err, ErrNoDomain) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestNoDaemon(t *testing.T) {
	d := Daemon{filepath.Join(t.TempDir(), "none")}
	if err := d.Shutdown(t.Context(), vm1.UUID, always); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if err := d.Shutdown(t.Context(), "vm-1", always); err == nil ||
		!strings.Contains(err.Error(), `"vm-1": want a UUID`) {
		t.Errorf("got %v", err)
	}
}

// Messages arrive unchanged, in pieces of any size.
func TestFramed(t *testing.T) {
	var sent []byte
	for _, size := range []int{28, 29, 5000, 28} {
		body := strings.Repeat(string(rune('a'+size%26)), size-4)
		sent = append(binary.BigEndian.AppendUint32(sent, uint32(size)), body...)
	}
	for name, reader := range map[string]io.Reader{
		"at once":      strings.NewReader(string(sent)),
		"byte by byte": iotest.OneByteReader(strings.NewReader(string(sent))),
	} {
		got, err := io.ReadAll(&framed{Conn: readConn{Reader: reader}})
		if err != nil || string(got) != string(sent) {
			t.Errorf("%s: %d of %d bytes, %v", name, len(got), len(sent), err)
		}
	}
}

type readConn struct {
	net.Conn
	io.Reader
}

func (c readConn) Read(p []byte) (int, error) { return c.Reader.Read(p) }

// slowDaemon finds every domain. It calls meanwhile before it answers.
type slowDaemon struct {
	meanwhile func()
	shutdowns int
}

func (d *slowDaemon) DomainLookupByUUID(id libvirt.UUID) (libvirt.Domain, error) {
	d.meanwhile()
	return libvirt.Domain{UUID: id}, nil
}

func (d *slowDaemon) DomainShutdownFlags(libvirt.Domain, libvirt.DomainShutdownFlagValues) error {
	d.shutdowns++
	return nil
}

// Shutdown checks the record again after a slow lookup.
func TestShutdownAfterAChange(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(t *testing.T, dir string)
		want      error
	}{
		"nothing": {func(*testing.T, string) {}, nil},
		"started anew": {func(t *testing.T, dir string) {
			replaced := bytes.Replace(read(t, "libvirt-9.0.xml"), []byte("pid='5222'"),
				[]byte("pid='5223'"),
				1)
			write(t, dir, "vm-1.xml", replaced)
		}, ErrOtherProcess},
		"another domain": {func(t *testing.T, dir string) {
			replaced := bytes.ReplaceAll(read(t, "libvirt-9.0.xml"), []byte(vm1.UUID),
				[]byte("00000000-5627-4dec-933e-74ce04c51e18"))
			write(t, dir, "vm-1.xml", replaced)
		}, ErrOtherProcess},
		"gone": {func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, "vm-1.xml")); err != nil {
				t.Fatal(err)
			}
		}, ErrNoDomain},
		"no record": {func(t *testing.T, dir string) { write(t, dir, "vm-1.xml", nil) },
			io.ErrUnexpectedEOF},
		"no directory": {func(t *testing.T, dir string) {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}, os.ErrNotExist},
	} {
		t.Run(name, func(t *testing.T) {
			r := records(t)
			d := &slowDaemon{meanwhile: func() { c.meanwhile(t, r.Dir) }}
			err := shutdown(d, libvirt.UUID{}, func() error { return r.Runs(vm1) })
			if !errors.Is(err, c.want) || (d.shutdowns == 1) != (c.want == nil) {
				t.Errorf("%d shutdowns, %v, want %v", d.shutdowns, err, c.want)
			}
		})
	}
}
