package agent

import (
	"strings"
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

// sightingOf is the sighting of anEmulator.
func sightingOf(pid int) supervisor.ProcessEvent {
	process := host.Process{PID: pid, StartTime: uint64(pid)}
	return supervisor.ProcessEvent{Tracked: supervisor.Tracked{Process: process, Group: 3,
		Executable: "qemu-kvm"}}
}

func event(kind bpf.Kind, of bpf.Tracked) bpf.Event { return bpf.Event{Kind: kind, Tracked: of} }

func TestEventFilterPasses(t *testing.T) {
	vm, sh := anEmulator(7), aShell(7) // the same process, and what it executes
	reused := sh
	reused.StartTime++
	for name, test := range map[string]struct {
		events []bpf.Event
		passed string // for each event: y or n
	}{
		"emulator": {[]bpf.Event{event(bpf.Fork, vm), event(bpf.Exec, vm),
			event(bpf.Move, vm)}, "yyy"},
		"no emulator": {[]bpf.Event{event(bpf.Fork, sh), event(bpf.Exec, sh),
			event(bpf.Move, sh)}, "nnn"},
		"launcher": {[]bpf.Event{event(bpf.Fork, aLauncher()),
			event(bpf.Exec, aLauncher()), event(bpf.Move, aLauncher())}, "nnn"},
		"executes something else": {[]bpf.Event{event(bpf.Exec, vm), event(bpf.Exec, sh),
			event(bpf.Exec, sh), event(bpf.Move, sh)}, "yynn"},
		"only known by its fork": {[]bpf.Event{event(bpf.Fork, vm), event(bpf.Exec, sh)}, "yy"},
		"moves between": {[]bpf.Event{event(bpf.Move, vm), event(bpf.Move, sh),
			event(bpf.Exec, sh)}, "yny"},
		"becomes one again": {[]bpf.Event{event(bpf.Exec, vm), event(bpf.Exec, sh),
			event(bpf.Exec, vm), event(bpf.Exec, sh)}, "yyyy"},
		"another with its number": {[]bpf.Event{event(bpf.Exec, vm), event(bpf.Exec, reused)},
			"yn"},
		"emulator ends": {[]bpf.Event{event(bpf.Exit, vm)}, "y"},
		"launcher ends": {[]bpf.Event{event(bpf.Exit, aLauncher())}, "y"},
		"another ends":  {[]bpf.Event{event(bpf.Exit, sh)}, "n"},
		"what was an emulator ends": {[]bpf.Event{event(bpf.Exec, vm), event(bpf.Exec, sh),
			event(bpf.Exit, sh)}, "yyn"},
		"nothing after the end": {[]bpf.Event{event(bpf.Exec, vm), event(bpf.Exit, vm),
			event(bpf.Exec, sh)}, "yyn"},
	} {
		t.Run(name, func(t *testing.T) {
			var f eventFilter
			var passed strings.Builder
			for i := range test.events {
				_, ok := f.sighting(&test.events[i])
				passed.WriteString(map[bool]string{true: "y", false: "n"}[ok])
			}
			if passed.String() != test.passed {
				t.Errorf("passed %s, want %s", passed.String(), test.passed)
			}
		})
	}
}

func TestEventFilterConverts(t *testing.T) {
	forked, left, ended, dumped := sightingOf(7), sightingOf(7), sightingOf(7), sightingOf(7)
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
		"moved":                   {event(bpf.Move, anEmulator(7)), sightingOf(7)},
		"executes something else": {event(bpf.Exec, aShell(7)), left},
		"ended":                   {exit(bpf.ExitStatus{Code: 3}), ended},
		"killed": {exit(bpf.ExitStatus{Signal: syscall.SIGSEGV, CoreDumped: true}),
			dumped},
	} {
		t.Run(name, func(t *testing.T) {
			var f eventFilter
			first := event(bpf.Exec, anEmulator(7))
			got, ok := f.sighting(&first)
			if diff := cmp.Diff(sightingOf(7), got); !ok || diff != "" {
				t.Errorf("executed: %t (-want +got)\n%s", ok, diff)
			}
			got, ok = f.sighting(&test.event)
			if diff := cmp.Diff(test.want, got); !ok || diff != "" {
				t.Errorf("passed: %t (-want +got)\n%s", ok, diff)
			}
		})
	}
}

// The agent runs for months, with many VMs.
func TestEventFilterForgetsEndedEmulators(t *testing.T) {
	var f eventFilter
	for pid := 100; pid < 1100; pid += 2 {
		for _, e := range []bpf.Event{
			event(bpf.Exec, anEmulator(pid)), event(bpf.Exit, anEmulator(pid)),
			// neither event nor its end passes
			event(bpf.Fork, anEmulator(pid+1)), event(bpf.Exec, aShell(pid+1)),
			event(bpf.Exec, aShell(pid)), event(bpf.Exit, aShell(pid)),
		} {
			f.sighting(&e)
		}
		if len(f.emulators) != 0 {
			t.Fatalf("after process %d the filter holds %d emulators, want none", pid,
				len(f.emulators))
		}
	}
}

// The tracker's ring outlives an agent, so the event of an end may come late.
func TestEventFilterKeepsTheTimeOfAnEnd(t *testing.T) {
	e := event(bpf.Exit, aLauncher())
	e.Time = 5_000_000_123
	if got, ok := new(eventFilter).sighting(&e); !ok || got.At != host.Boottime(e.Time) {
		t.Errorf("sighting %+v (%t), want it at %d", got, ok, e.Time)
	}
}
