package agent

import (
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/bpf"
	"github.com/mooring-vm/mooring/lifecycle/host"
	"github.com/mooring-vm/mooring/lifecycle/supervisor"
)

func numbered(pid int, file string) bpf.Tracked {
	return bpf.Tracked{Process: bpf.Process{PID: pid, StartTime: uint64(pid) * uint64(host.Tick)},
		Group: 3, File: bpf.File{Name: file}}
}

func aShell(pid int) bpf.Tracked { return numbered(pid, "sh") }

func aLauncher() bpf.Tracked {
	p := numbered(6, "virt-launcher")
	p.Watched = true
	return p
}

func anEmulator(pid int) bpf.Tracked {
	p := numbered(pid, "qemu-kvm")
	p.Emulator = true
	return p
}

// emulatorEvent is the sighting of anEmulator.
func emulatorEvent(pid int) supervisor.ProcessEvent {
	process := host.ProcessAt(pid, uint64(pid))
	return supervisor.ProcessEvent{Tracked: supervisor.Tracked{Process: process, Group: 3,
		Executable: "qemu-kvm"}}
}

func event(kind bpf.Kind, of bpf.Tracked) bpf.Event { return bpf.Event{Kind: kind, Tracked: of} }

// replaced is the event of an emulator that executes a shell.
func replaced() bpf.Event {
	e := event(bpf.Exec, aShell(7))
	e.WasEmulator = true
	return e
}

func TestEventsThatPass(t *testing.T) {
	vm, sh, launcher := anEmulator(7), aShell(7), aLauncher()
	for name, test := range map[string]struct {
		event  bpf.Event
		passes bool
	}{
		"an emulator forks":       {event(bpf.Fork, vm), true},
		"an emulator starts":      {event(bpf.Exec, vm), true},
		"an emulator moves":       {event(bpf.Move, vm), true},
		"an emulator ends":        {event(bpf.Exit, vm), true},
		"executes something else": {replaced(), true},
		"another forks":           {event(bpf.Fork, sh), false},
		"another starts":          {event(bpf.Exec, sh), false},
		"another moves":           {event(bpf.Move, sh), false},
		"another ends":            {event(bpf.Exit, sh), false},
		"a launcher forks":        {event(bpf.Fork, launcher), false},
		"a launcher starts":       {event(bpf.Exec, launcher), false},
		"a launcher moves":        {event(bpf.Move, launcher), false},
		"a launcher ends":         {event(bpf.Exit, launcher), true},
	} {
		t.Run(name, func(t *testing.T) {
			if _, ok := sightingOf(&test.event); ok != test.passes {
				t.Errorf("passes: %t, want %t", ok, test.passes)
			}
		})
	}
}

func TestEventsConvert(t *testing.T) {
	forked, left := emulatorEvent(7), emulatorEvent(7)
	ended, dumped := emulatorEvent(7), emulatorEvent(7)
	forked.Forked = true
	left.Executable = ""
	ended.Ended, ended.How = true, "exit code 3"
	dumped.Ended, dumped.How = true, "SIGSEGV, core dumped"
	exit := func(s bpf.ExitStatus) bpf.Event {
		return bpf.Event{Kind: bpf.Exit, Tracked: anEmulator(7), Exit: s}
	}
	for name, test := range map[string]struct {
		event bpf.Event
		want  supervisor.ProcessEvent
	}{
		"forked":                  {event(bpf.Fork, anEmulator(7)), forked},
		"moved":                   {event(bpf.Move, anEmulator(7)), emulatorEvent(7)},
		"starts":                  {event(bpf.Exec, anEmulator(7)), emulatorEvent(7)},
		"executes something else": {replaced(), left},
		"ended":                   {exit(bpf.ExitStatus{Code: 3}), ended},
		"killed": {exit(bpf.ExitStatus{Signal: syscall.SIGSEGV, CoreDumped: true}),
			dumped},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := sightingOf(&test.event)
			if diff := cmp.Diff(test.want, got); !ok || diff != "" {
				t.Errorf("passed: %t (-want +got)\n%s", ok, diff)
			}
		})
	}
}

// The tracker's ring outlives an agent, so the event of an end may come late.
func TestEventKeepsTheTimeOfAnEnd(t *testing.T) {
	e := event(bpf.Exit, aLauncher())
	e.Time = 5_000_000_123
	if got, ok := sightingOf(&e); !ok || got.At != host.Boottime(e.Time) {
		t.Errorf("sighting %+v (%t), want it at %d", got, ok, e.Time)
	}
}
