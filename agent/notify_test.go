package agent

import (
	"net"
	"path/filepath"
	"testing"
)

func TestNotifySystemd(t *testing.T) {
	config := testConfig(t)
	address := &net.UnixAddr{Name: filepath.Join(filepath.Dir(config.Policy), "notify"),
		Net: "unixgram"}
	systemd, err := net.ListenUnixgram("unixgram", address)
	if err != nil {
		t.Fatal(err)
	}
	defer systemd.Close()
	t.Setenv("NOTIFY_SOCKET", address.Name)
	received := make(chan string, 10)
	go func() {
		buffer := make([]byte, 1024)
		for {
			n, err := systemd.Read(buffer)
			if err != nil {
				return
			}
			received <- string(buffer[:n])
		}
	}()

	a := start(t, config)
	a.get(t, "/healthz")
	if len(received) != 0 {
		t.Errorf("without a runtime, systemd received %q", <-received)
	}
	startRuntime(t, config.NRISocket)
	if got := receive(t, received, "READY"); got != "READY=1" {
		t.Errorf("systemd received %q, want READY=1", got)
	}
	if err := a.stop(); err != nil {
		t.Error(err)
	}
	if got := receive(t, received, "STOPPING"); got != "STOPPING=1" {
		t.Errorf("systemd received %q, want STOPPING=1", got)
	}
}
