package libvirt

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/lifecycle/gate"
)

// running returns the only domain, and ends its process with the test.
func (r ownLibvirt) running(t *testing.T) Domain {
	t.Helper()
	all, err := r.List()
	if err != nil || len(all) != 1 {
		t.Fatalf("domains %+v, %v, want one", all, err)
	}
	t.Cleanup(func() { _ = unix.Kill(all[0].PID, unix.SIGKILL) })
	if state, err := r.VirshOutput(t, "domstate", "vm-1"); err != nil || state != "running" {
		t.Errorf("state %q, %v", state, err)
	}
	return all[0]
}

// startOwned lets the gate allow vm-1, and starts it.
func (r ownLibvirt) startOwned(t *testing.T, state string, args ...string) Domain {
	t.Helper()
	eventually(t, "the owned domain starts", func() bool {
		writeState(t, state, nil) // a state of 30 s is old
		return r.Virsh(t, args...) == nil
	})
	return r.running(t)
}

func withoutOwner(s *gate.State) { s.Owners = nil }

// The gate decides about a restored domain. A refusal keeps the saved memory.
func TestRestoreThroughTheGate(t *testing.T) {
	var state string
	r := startLibvirtWith(t, func(dir string) { state = installGate(t, dir) })
	definition, saved := filepath.Join(r.Home, "vm.xml"), filepath.Join(r.Home, "saved")
	r.startOwned(t, state, "create", definition)
	r.Must(t, "save", "vm-1", saved)
	r.checkEmpty(t)
	writeState(t, state, withoutOwner)
	checkRefusal(t, r.Virsh(t, "restore", saved), "no launcher on this node declares it")
	r.checkEmpty(t)
	r.startOwned(t, state, "restore", saved)
	r.Destroy(t, "vm-1")

	r.Must(t, "define", definition)
	r.startOwned(t, state, "start", "vm-1")
	r.Must(t, "managedsave", "vm-1")
	writeState(t, state, withoutOwner)
	checkRefusal(t, r.Virsh(t, "start", "vm-1"), "no launcher on this node declares it")
	kept, err := r.VirshOutput(t, "list", "--all", "--name", "--with-managed-save")
	if kept != "vm-1" || err != nil {
		t.Errorf("domains with saved memory: %q, %v", kept, err)
	}
	r.startOwned(t, state, "start", "vm-1")
	kept, err = r.VirshOutput(t, "list", "--name", "--with-managed-save")
	if kept != "" || err != nil {
		t.Errorf("the start used no saved memory: %q, %v", kept, err)
	}
	r.Destroy(t, "vm-1")
}

// The gate decides about a domain that migrates in. After a refusal it runs on at its source.
func TestMigrationThroughTheGate(t *testing.T) {
	source := startLibvirt(t)
	dir, state := filepath.Join(source.Home, "to"), "" // the source sees the migration's socket
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	target := startLibvirtIn(t, dir, func(dir string) { state = installGate(t, dir) })
	source.Must(t, "create", filepath.Join(source.Home, "vm.xml"))
	left := source.running(t)
	migrate := []string{"migrate", "--live", "vm-1", target.URI(),
		"--migrateuri", "unix://" + filepath.Join(dir, "migration")}

	writeState(t, state, withoutOwner)
	checkRefusal(t, source.Virsh(t, migrate...), "no launcher on this node declares it")
	target.checkEmpty(t)
	if again := source.running(t); again.PID != left.PID {
		t.Errorf("the source runs %+v, want %+v", again, left)
	}

	writeState(t, state, nil)
	source.Must(t, migrate...)
	source.checkEmpty(t)
	arrived := target.running(t)
	if arrived.UUID != left.UUID || !arrived.RunBy(argsOf(arrived.PID)) {
		t.Errorf("the target runs %+v, want %+v", arrived, left)
	}

	writeState(t, state, withoutOwner) // the owner leaves, and the agent
	if err := os.Remove(state); err != nil {
		t.Fatal(err)
	}
	target.Restart(t)
	if again := target.running(t); again.PID != arrived.PID {
		t.Errorf("the target runs %+v after libvirt's restart, want %+v", again, arrived)
	}
	target.Destroy(t, "vm-1")
}

// killGateAt makes the installed hook kill itself at the operation that the returned file names.
func killGateAt(t *testing.T, dir string) (operation string) {
	t.Helper()
	operation = filepath.Join(dir, "killed")
	hook := filepath.Join(dir, "etc", strings.TrimPrefix(gate.HookPath, "/etc/libvirt/"))
	moved := filepath.Join(dir, filepath.Base(hook))
	if err := os.Rename(hook, moved); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\n[ \"$2\" != \"$(cat " + operation + ")\" ] || kill -KILL $$\n" +
		"exec " + moved + " \"$@\"\n"
	if err := os.WriteFile(hook, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, dir, filepath.Base(operation), nil)
	return operation
}

// A killed hook is a refusal for libvirt, at each point. The domain then runs nowhere, and the next
// start works.
func TestKilledGate(t *testing.T) {
	var state, operation string
	r := startLibvirtWith(t, func(dir string) {
		state = installGate(t, dir)
		operation = killGateAt(t, dir)
	})
	killAt := func(name string) { write(t, r.Home, filepath.Base(operation), []byte(name)) }
	create := []string{"create", filepath.Join(r.Home, "vm.xml")}
	for _, at := range []string{"prepare", "start", "started"} {
		killAt(at)
		writeState(t, state, nil)
		if err := r.Virsh(t, create...); err == nil {
			t.Errorf("a hook killed at %s starts the domain", at)
		}
		r.checkEmpty(t)
		killAt("")
		r.startOwned(t, state, create...)
		r.Destroy(t, "vm-1")
	}
	for _, at := range []string{"stopped", "release"} {
		vm := r.startOwned(t, state, create...)
		killAt(at)
		r.Destroy(t, "vm-1")
		r.checkEmpty(t)
		if args := argsOf(vm.PID); args != nil {
			t.Errorf("a hook killed at %s leaves process %q", at, args)
		}
		killAt("")
	}
	vm := r.startOwned(t, state, create...)
	killAt("reconnect")
	r.Restart(t)
	eventually(t, "libvirt ends a domain without an answer to its reconnect", func() bool {
		all, err := r.List()
		return argsOf(vm.PID) == nil && len(all) == 0 && err == nil
	})
	killAt("")
	r.startOwned(t, state, create...)
	r.Destroy(t, "vm-1")
}
