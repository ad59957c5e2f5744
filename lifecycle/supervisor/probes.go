package supervisor

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/mooring-vm/mooring/lifecycle/host"
)

// maxProbeAge bounds the age of a probe. An older emulator without a machine counts as a VM.
const maxProbeAge = 30 * time.Second

// findProbes finds the emulators of pods that run no VM. It starts all reads first, so that a slow
// process delays no other. Emulators beyond the limit of reads come last.
func (s *Supervisor) findProbes(ctx context.Context, result *scanResult, emulators []Tracked) {
	readerOf := func(p Tracked) argumentsReader {
		return argumentsReader{group: p.Group, container: result.containerOf[p.ID()]}
	}
	reads := make([]*argumentsRead, len(emulators))
	for i, p := range emulators {
		reads[i] = s.startRead(p.Process, readerOf(p))
	}
	for i, p := range emulators {
		if reads[i] != nil {
			s.classifyEmulator(ctx, result, p.ID(), reads[i])
		}
	}
	for i, p := range emulators {
		if reads[i] == nil {
			s.classifyEmulator(ctx, result, p.ID(), s.startRead(p.Process, readerOf(p)))
		}
	}
}

// classifyEmulator decides whether an emulator is a probe. An emulator with an unreadable command
// line counts as a VM.
func (s *Supervisor) classifyEmulator(
	ctx context.Context, result *scanResult, p host.Process, r *argumentsRead,
) {
	args, err := r.await(ctx, p)
	result.unread[p] = errors.Is(err, errNotReadYet)
	result.probes[p] = s.isProbe(p, args) || errors.Is(err, host.ErrGone)
	if result.inherited[p] && err == nil && s.runsReadableDomain(result, args) {
		delete(result.inherited, p)
	}
}

// isProbe reports whether an emulator is a probe: libvirt starts emulators without a machine for a
// moment, to ask for their capabilities.
func (s *Supervisor) isProbe(p host.Process, args []string) bool {
	old := p.StartedBefore(s.Clock.Now().Add(-maxProbeAge))
	return withoutMachine(args) && !old
}

// withoutMachine reports whether each machine option of a QEMU command line is "none", and there is
// at least one.
func withoutMachine(args []string) bool {
	none := false
	for i, arg := range args {
		if i+1 < len(args) && slices.Contains([]string{"-machine", "--machine", "-M", "--M"}, arg) {
			kind, _, _ := strings.Cut(args[i+1], ",")
			if none = strings.TrimPrefix(kind, "type=") == "none"; !none {
				return false
			}
		}
	}
	return none
}
