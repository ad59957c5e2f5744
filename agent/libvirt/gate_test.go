package libvirt

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/gate"
)

// TestMain lets libvirt run a copy of this program as the start gate: not every machine with libvirt
// can build mooring-hook.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) != filepath.Base(gate.HookPath) {
		os.Exit(m.Run())
	}
	if err := (gate.Hook{Config: gate.ConfigPath}).Call(os.Args[1:], os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// installGate installs the start gate into the configuration of a libvirt before its start. The
// gate requires an owner for vm-1 and reads the state at the returned path.
func installGate(t *testing.T, dir string) (state string) {
	t.Helper()
	place := func(path string) string {
		return filepath.Join(dir, "etc", strings.TrimPrefix(path, "/etc/libvirt/"))
	}
	hook := place(gate.HookPath)
	if err := os.MkdirAll(filepath.Dir(hook), 0o700); err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(hook, program, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	state = filepath.Join(dir, gate.StateName)
	config, err := json.Marshal(gate.Config{Version: gate.Version, State: state,
		RequireOwner: []string{"vm-*"}})
	if err == nil {
		err = os.WriteFile(place(gate.ConfigPath), config, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// writeState lets an agent write the state. The test itself is the launcher process.
func writeState(t *testing.T, path string, change func(*gate.State)) {
	t.Helper()
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(stat[strings.LastIndex(string(stat), ")")+1:]))
	ticks, err := strconv.ParseUint(fields[22-3], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	s := gate.State{Written: gate.Now(), RequireOwner: []string{"vm-*"}, Owners: []gate.Owner{
		{Domain: vm1.UUID, Pod: "vms/vm-1", PID: os.Getpid(), Ticks: ticks},
	}}
	if change != nil {
		change(&s)
	}
	if err := s.Write(path); err != nil {
		t.Fatal(err)
	}
}

// refused fails the test unless libvirt refuses the start with this reason.
func (r ownLibvirt) refused(t *testing.T, reason string) {
	t.Helper()
	checkRefusal(t, r.Virsh(t, "create", filepath.Join(r.Home, "vm.xml")), reason)
	r.checkEmpty(t)
}

// checkRefusal fails the test unless the gate has refused the domain with this reason.
func checkRefusal(t *testing.T, err error, reason string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), "the start gate refuses domain vm-1") ||
		!strings.Contains(err.Error(), reason) {
		t.Errorf("%v, want a refusal with %q", err, reason)
	}
}

// checkEmpty fails the test if a domain runs.
func (r ownLibvirt) checkEmpty(t *testing.T) {
	t.Helper()
	if all, err := r.List(); err != nil || len(all) != 0 {
		t.Errorf("domains %+v, %v, want none", all, err)
	}
}

// The start gate in a real libvirt: refusals name the reason, an owned domain starts, and it keeps
// running while libvirt restarts without an agent.
func TestRealStartGate(t *testing.T) {
	var state string
	r := startLibvirtWith(t, func(dir string) { state = installGate(t, dir) })
	r.refused(t, "gate.json is missing; start the agent")
	writeState(t, state, func(s *gate.State) { s.Owners = nil })
	r.refused(t, "no launcher on this node declares it")
	writeState(t, state, func(s *gate.State) { s.Owners[0].Ticks++ })
	r.refused(t, "its launcher process "+strconv.Itoa(os.Getpid())+" has ended")
	writeState(t, state, func(s *gate.State) { s.Owners[0].HeartbeatUntil = 1 })
	r.refused(t, "its heartbeat is late")
	writeState(t, state, func(s *gate.State) { s.Written -= gate.MaxAge + time.Second })
	r.refused(t, "s old, want at most 30s")

	eventually(t, "the owned domain starts", func() bool {
		writeState(t, state, nil)
		return r.Virsh(t, "create", filepath.Join(r.Home, "vm.xml")) == nil
	})
	running, err := r.List()
	if err != nil || len(running) != 1 {
		t.Fatalf("List = %+v, %v", running, err)
	}
	t.Cleanup(func() { _ = unix.Kill(running[0].PID, unix.SIGKILL) })
	if err := os.Remove(state); err != nil { // the agent is away
		t.Fatal(err)
	}
	r.Restart(t)
	r.Must(t, "domstate", "vm-1")
	if !running[0].RunBy(argsOf(running[0].PID)) {
		t.Errorf("%+v does not run after libvirt's restart", running[0])
	}
	r.Destroy(t, "vm-1")
	r.refused(t, "gate.json is missing")
}

// libvirt keeps the owner in its record of the running domain, also after its own end.
func TestRealOwner(t *testing.T) {
	r := startLibvirt(t)
	const element = `<metadata><m:owner xmlns:m="` + api.OwnerNamespace +
		`" namespace="vms" name="vm-1" uid="3f4c1f0e-8a63"/></metadata>`
	write(t, r.Home, "owned.xml", []byte(strings.Replace(realDomain, "<memory", element+"<memory", 1)))
	r.Must(t, "create", filepath.Join(r.Home, "owned.xml"))
	all, _, err := r.Scan()
	want := agentapi.PodRef{Namespace: "vms", Name: "vm-1", UID: "3f4c1f0e-8a63"}
	if err != nil || len(all) != 1 || all[0].Owner != want {
		t.Errorf("records %+v, %v, want owner %+v", all, err, want)
	}
	r.Destroy(t, "vm-1")
}

// Domains without a required owner start in any case, also before the agent's first start.
func TestStartGateIgnoresOtherDomains(t *testing.T) {
	r := startLibvirtWith(t, func(dir string) { installGate(t, dir) })
	other := strings.ReplaceAll(realDomain, "vm-1", "db")
	write(t, r.Home, "db.xml", []byte(other))
	r.Must(t, "create", filepath.Join(r.Home, "db.xml"))
	r.Destroy(t, "db")
}

// A removed hook needs no restart of libvirt.
func TestRemovedStartGate(t *testing.T) {
	r := startLibvirtWith(t, func(dir string) { installGate(t, dir) })
	r.refused(t, "missing")
	if err := os.RemoveAll(filepath.Join(r.Home, "etc", "hooks")); err != nil {
		t.Fatal(err)
	}
	r.Must(t, "create", filepath.Join(r.Home, "vm.xml"))
	r.Destroy(t, "vm-1")
}

// The probe proves a gate that works, and starts nowhere.
func TestProbeStartGate(t *testing.T) {
	for name, install := range map[string]func(*testing.T, string) string{
		"gate": installGate, "no gate": func(*testing.T, string) string { return "" },
	} {
		t.Run(name, func(t *testing.T) {
			r := startLibvirtWith(t, func(dir string) { install(t, dir) })
			works, err := r.ProbeGate(t.Context())
			if want := name == "gate"; works != want || err != nil {
				t.Errorf("works: %t, %v, want %t", works, err, want)
			}
			if all, err := r.List(); err != nil || len(all) != 0 {
				t.Errorf("the probe runs: %+v, %v", all, err)
			}
		})
	}
}

// A security module denies libvirt its hook, or the hook its files. The probe names the reason. An
// interpreter without execute permission stands for the first: execve fails in the same way.
func TestProbeOfADeniedStartGate(t *testing.T) {
	for reason, deny := range map[string]func(t *testing.T, dir, state string){
		"Permission denied": func(t *testing.T, dir, state string) {
			write(t, dir, "interpreter", nil)
			hook := filepath.Join(dir, "etc", strings.TrimPrefix(gate.HookPath, "/etc/libvirt/"))
			script := "#!" + filepath.Join(dir, "interpreter") + "\n"
			if err := os.WriteFile(hook, []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
		},
		"the start gate cannot work: ": func(t *testing.T, _, state string) {
			if err := os.Mkdir(state, 0o700); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(reason, func(t *testing.T) {
			r := startLibvirtWith(t, func(dir string) { deny(t, dir, installGate(t, dir)) })
			works, err := r.ProbeGate(t.Context())
			if works || !errors.Is(err, ErrHookFailed) || !strings.Contains(err.Error(), reason) {
				t.Errorf("works: %t, %v, want a failed hook with %q", works, err, reason)
			}
		})
	}
}
