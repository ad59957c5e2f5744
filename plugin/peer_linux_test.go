package plugin

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestListenerPID(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "socket"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	conn, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if got := listenerPID(conn); got != os.Getpid() {
		t.Errorf("pid %d, want %d", got, os.Getpid())
	}
	one, other := net.Pipe()
	defer one.Close()
	defer other.Close()
	if got := listenerPID(one); got != 0 {
		t.Errorf("pid %d of a pipe, want 0", got)
	}
}
