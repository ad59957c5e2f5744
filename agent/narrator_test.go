package agent

import (
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/bpf"
	"github.com/mooring-vm/mooring/lifecycle"
)

func numbered(pid int, file string) bpf.Tracked {
	return bpf.Tracked{Process: bpf.Process{PID: pid, StartTime: uint64(pid) * uint64(lifecycle.Tick)}, Group: 3, File: bpf.File{Name: file}}
}

func aShell(pid int) bpf.Tracked { return numbered(pid, "sh") }

func anOwner() bpf.Tracked {
	p := numbered(6, "virt-launcher")
	p.Watched = true
	return p
}

func anEmulator(pid int) bpf.Tracked {
	p := numbered(pid, "qemu-kvm")
	p.Emulator = true
	return p
}

// seen is what the supervisor is told of anEmulator.
func seen(pid int) lifecycle.Sighting {
	process := lifecycle.Process{PID: pid, StartTime: uint64(pid)}
	return lifecycle.Sighting{Tracked: lifecycle.Tracked{Process: process, Group: 3, Executable: "qemu-kvm"}}
}

func happens(kind bpf.Kind, to bpf.Tracked) bpf.Event { return bpf.Event{Kind: kind, Tracked: to} }

func TestNarratorPicks(t *testing.T) {
	vm, sh := anEmulator(7), aShell(7) // the same process, and what it executes
	reused := sh
	reused.StartTime++
	for name, test := range map[string]struct {
		events []bpf.Event
		told   string // of each event: y or n
	}{
		"emulator":                  {[]bpf.Event{happens(bpf.Fork, vm), happens(bpf.Exec, vm), happens(bpf.Move, vm)}, "yyy"},
		"no emulator":               {[]bpf.Event{happens(bpf.Fork, sh), happens(bpf.Exec, sh), happens(bpf.Move, sh)}, "nnn"},
		"owner":                     {[]bpf.Event{happens(bpf.Fork, anOwner()), happens(bpf.Exec, anOwner()), happens(bpf.Move, anOwner())}, "nnn"},
		"executes something else":   {[]bpf.Event{happens(bpf.Exec, vm), happens(bpf.Exec, sh), happens(bpf.Exec, sh), happens(bpf.Move, sh)}, "yynn"},
		"only known by its fork":    {[]bpf.Event{happens(bpf.Fork, vm), happens(bpf.Exec, sh)}, "yy"},
		"moves between":             {[]bpf.Event{happens(bpf.Move, vm), happens(bpf.Move, sh), happens(bpf.Exec, sh)}, "yny"},
		"becomes one again":         {[]bpf.Event{happens(bpf.Exec, vm), happens(bpf.Exec, sh), happens(bpf.Exec, vm), happens(bpf.Exec, sh)}, "yyyy"},
		"another with its number":   {[]bpf.Event{happens(bpf.Exec, vm), happens(bpf.Exec, reused)}, "yn"},
		"emulator ends":             {[]bpf.Event{happens(bpf.Exit, vm)}, "y"},
		"owner ends":                {[]bpf.Event{happens(bpf.Exit, anOwner())}, "y"},
		"another ends":              {[]bpf.Event{happens(bpf.Exit, sh)}, "n"},
		"what was an emulator ends": {[]bpf.Event{happens(bpf.Exec, vm), happens(bpf.Exec, sh), happens(bpf.Exit, sh)}, "yyn"},
		"nothing after the end":     {[]bpf.Event{happens(bpf.Exec, vm), happens(bpf.Exit, vm), happens(bpf.Exec, sh)}, "yyn"},
	} {
		t.Run(name, func(t *testing.T) {
			var n narrator
			var told strings.Builder
			for i := range test.events {
				_, ok := n.sighting(&test.events[i])
				told.WriteString(map[bool]string{true: "y", false: "n"}[ok])
			}
			if told.String() != test.told {
				t.Errorf("told %s, want %s", told.String(), test.told)
			}
		})
	}
}

func TestNarratorTells(t *testing.T) {
	forked, left, ended, dumped := seen(7), seen(7), seen(7), seen(7)
	forked.Forked = true
	left.Executable = ""
	ended.Ended, ended.How = true, "exit code 3"
	dumped.Ended, dumped.How = true, "SIGSEGV, core dumped"
	exit := func(s bpf.ExitStatus) bpf.Event {
		return bpf.Event{Kind: bpf.Exit, Tracked: anEmulator(7), Exit: s}
	}
	for name, test := range map[string]struct {
		event bpf.Event
		want  lifecycle.Sighting
	}{
		"forked":                  {happens(bpf.Fork, anEmulator(7)), forked},
		"moved":                   {happens(bpf.Move, anEmulator(7)), seen(7)},
		"executes something else": {happens(bpf.Exec, aShell(7)), left},
		"ended":                   {exit(bpf.ExitStatus{Code: 3}), ended},
		"killed":                  {exit(bpf.ExitStatus{Signal: syscall.SIGSEGV, CoreDumped: true}), dumped},
	} {
		t.Run(name, func(t *testing.T) {
			var n narrator
			first := happens(bpf.Exec, anEmulator(7))
			got, ok := n.sighting(&first)
			if diff := cmp.Diff(seen(7), got); !ok || diff != "" {
				t.Errorf("executed: %t (-want +got)\n%s", ok, diff)
			}
			got, ok = n.sighting(&test.event)
			if diff := cmp.Diff(test.want, got); !ok || diff != "" {
				t.Errorf("told: %t (-want +got)\n%s", ok, diff)
			}
		})
	}
}

// The agent runs for months, and VMs come and go.
func TestNarratorForgets(t *testing.T) {
	var n narrator
	for pid := 100; pid < 1100; pid += 2 {
		for _, e := range []bpf.Event{
			happens(bpf.Exec, anEmulator(pid)), happens(bpf.Exit, anEmulator(pid)),
			happens(bpf.Fork, anEmulator(pid+1)), happens(bpf.Exec, aShell(pid+1)), // tells no more, nor its end
			happens(bpf.Exec, aShell(pid)), happens(bpf.Exit, aShell(pid)),
		} {
			n.sighting(&e)
		}
		if len(n.emulators) != 0 {
			t.Fatalf("after process %d %d emulators are remembered that are none any more", pid, len(n.emulators))
		}
	}
}

// An end may be told long after it: the tracker's ring outlives an agent.
func TestNarratorTellsWhen(t *testing.T) {
	e := happens(bpf.Exit, anOwner())
	e.Time = 5_000_000_123
	if told, ok := new(narrator).sighting(&e); !ok || told.At != lifecycle.Boottime(e.Time) {
		t.Errorf("told %+v (%t), want it at %d", told, ok, e.Time)
	}
}
