package bpf

import (
	"fmt"
	"log/slog"
	"math/bits"
	"os"
	"strings"
	"time"

	"github.com/cilium/ebpf"
)

// Options configures a tracker. The zero value tracks without pins and without emulators.
type Options struct {
	// Dir is the directory for pins, in a bpf file system. Open creates it. Empty: no pins, and the
	// tracker ends with Close.
	Dir string

	// Emulators are base names of executables. Executing one makes a process an emulator, also as
	// .NAME-wrapped, NAME.distrib and memfd:NAME, and under any later name of the file. 1 to 63
	// bytes each, at most 256 names.
	Emulators []string

	// MaxProcesses is the number of processes in the map, at least 16. 0: 32,768, about 6 MiB of
	// kernel memory. Only emulators and watched processes can use the last quarter. A group can use
	// an eighth of the map, and its emulators half as much again. The same holds for the emulators
	// of a cgroup without a group.
	MaxProcesses uint32

	// MaxGroups is the number of registered cgroups. 0: 4,096.
	MaxGroups uint32

	// RingBytes is the size of the event ring: a power of two, at least a page. 0: 1 MiB, room for
	// about 7,000 events.
	RingBytes uint32

	// Logger gets a line for each take-over, upgrade and failed read. nil: no log.
	Logger *slog.Logger

	raw          bool          // use raw tracepoints, as if tp_btf were unavailable
	build        string        // distinguishes builds of the object; empty: its hash
	readInterval time.Duration // longest wait of an event that is not urgent
}

const (
	maxEmulators = 256
	minProcesses = 16 // the smallest size with an eighth that can be halved
)

// withDefaults checks the options and fills in the defaults.
func (o Options) withDefaults() (Options, error) {
	if o.MaxProcesses == 0 {
		o.MaxProcesses = 32 << 10
	}
	if o.MaxGroups == 0 {
		o.MaxGroups = 4 << 10
	}
	if o.RingBytes == 0 {
		o.RingBytes = 1 << 20
	}
	if o.readInterval == 0 {
		o.readInterval = time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if bits.OnesCount32(o.RingBytes) != 1 || int(o.RingBytes) < os.Getpagesize() {
		return o, fmt.Errorf("ring of %d bytes: want a power of two, and at least %d", o.RingBytes,
			os.Getpagesize())
	}
	if o.MaxProcesses < minProcesses {
		return o, fmt.Errorf("room for %d processes: want at least %d", o.MaxProcesses,
			minProcesses)
	}
	if len(o.Emulators) > maxEmulators {
		return o, fmt.Errorf("%d emulators: want at most %d", len(o.Emulators), maxEmulators)
	}
	for _, name := range o.Emulators {
		if name == "" || len(name) >= nameSize || strings.ContainsAny(name, "/\x00") {
			return o, fmt.Errorf("emulator %q: want the base name of a file, 1 to %d bytes",
				name, nameSize-1)
		}
	}
	return o, nil
}

// setShares sets the parts of the map for groups and for ordinary processes.
func (o Options) setShares(s *trackerSettings) {
	s.Ordinary = o.MaxProcesses / 4 * 3
	s.Share = o.MaxProcesses / 8
	s.ShareTotal = s.Share + s.Share/2
}

// setMapSizes sets the sizes of the maps.
func (o Options) setMapSizes(spec *ebpf.CollectionSpec) {
	spec.Maps[trackerMapProcesses].MaxEntries = o.MaxProcesses
	spec.Maps[trackerMapGroups].MaxEntries = o.MaxGroups
	spec.Maps[trackerMapEvents].MaxEntries = o.RingBytes
}
