package agent

import (
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/mooring-vm/mooring/lifecycle/gate"
)

// listenAsSystemd returns the agent's notifications for systemd.
func listenAsSystemd(t *testing.T, config Config) <-chan string {
	t.Helper()
	address := &net.UnixAddr{Name: filepath.Join(filepath.Dir(config.Policy), "notify"),
		Net: "unixgram"}
	systemd, err := net.ListenUnixgram("unixgram", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = systemd.Close() })
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
	return received
}

func TestNotifySystemd(t *testing.T) {
	config := testConfig(t)
	received := listenAsSystemd(t, config)
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

// A ready agent enforces its policy at the start gate, also after an agent that only observed.
func TestReadyWithTheStartGate(t *testing.T) {
	config := testConfig(t)
	enforced := testPolicy + "lifecycle: {libvirt: {requireOwner: [vm-*], records: /nonexistent}}\n"
	if err := os.WriteFile(config.Policy, []byte(enforced), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(config.Root, gate.StateName)
	if err := (gate.State{ObserveOwner: []string{"vm-*"}}).Write(path); err != nil {
		t.Fatal(err)
	}
	startRuntime(t, config.NRISocket)
	received := listenAsSystemd(t, config)
	a := start(t, config)
	if a.supervision == nil {
		skip(t, "without a tracker there is no start gate")
	}
	receive(t, received, "READY")
	if s, err := gate.ReadState(path); err != nil || len(s.RequireOwner) != 1 {
		t.Errorf("the start gate's state is %+v, %v; want it to require owners", s, err)
	}
}
