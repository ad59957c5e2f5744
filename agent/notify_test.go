package agent

import (
	"net"
	"path/filepath"
	"testing"
)

// TestSystemdIsTold checks what systemd hears, and when.
func TestSystemdIsTold(t *testing.T) {
	config := testConfig(t)
	address := &net.UnixAddr{Name: filepath.Join(filepath.Dir(config.Policy), "notify"), Net: "unixgram"}
	systemd, err := net.ListenUnixgram("unixgram", address)
	if err != nil {
		t.Fatal(err)
	}
	defer systemd.Close()
	t.Setenv("NOTIFY_SOCKET", address.Name)
	heard := make(chan string, 10)
	go func() {
		buffer := make([]byte, 1024)
		for {
			n, err := systemd.Read(buffer)
			if err != nil {
				return
			}
			heard <- string(buffer[:n])
		}
	}()

	a := start(t, config)
	a.get(t, "/healthz")
	if len(heard) != 0 {
		t.Errorf("before the runtime is there, systemd was told %q", <-heard)
	}
	startRuntime(t, config.NRISocket)
	if got := receive(t, heard, "READY"); got != "READY=1" {
		t.Errorf("systemd was told %q, want READY=1", got)
	}
	if err := a.stop(); err != nil {
		t.Error(err)
	}
	if got := receive(t, heard, "STOPPING"); got != "STOPPING=1" {
		t.Errorf("systemd was told %q, want STOPPING=1", got)
	}
}
