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

// Options says how to track. The zero value tracks unpinned, and no emulators.
type Options struct {
	// Dir is the folder for pins, in a bpf file system, and made if need be.
	// Empty: nothing is pinned, and everything ends with Close.
	Dir string

	// Emulators are base names of the files whose execution makes a process an
	// emulator: 1 to 63 bytes each, at most 256.
	Emulators []string

	// MaxProcesses is how many processes can be tracked at a time, at least 16. 0:
	// 32,768, which takes about 6 MiB of kernel memory. The last quarter is for
	// emulators and watched processes. A group may have an eighth of all, and its
	// emulators half as many more; so may the emulators of a cgroup without a group.
	MaxProcesses uint32

	// MaxGroups is how many cgroups can be registered. 0: 4,096.
	MaxGroups uint32

	// RingBytes is the size of the ring of events: a power of two, and at least
	// the size of a page. 0: 1 MiB, room for some 7,000 events.
	RingBytes uint32

	// Logger is told of take-overs and upgrades. nil: nobody is.
	Logger *slog.Logger

	raw      bool          // as if tp_btf could not be attached
	build    string        // tells one object from another; empty: its hash
	patience time.Duration // for how long an event may wait that is not urgent
}

const (
	maxEmulators = 256
	minProcesses = 16 // of which a share of an eighth can be halved
)

// complete checks the options and fills in what they leave open.
func (o Options) complete() (Options, error) {
	if o.MaxProcesses == 0 {
		o.MaxProcesses = 32 << 10
	}
	if o.MaxGroups == 0 {
		o.MaxGroups = 4 << 10
	}
	if o.RingBytes == 0 {
		o.RingBytes = 1 << 20
	}
	if o.patience == 0 {
		o.patience = time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if bits.OnesCount32(o.RingBytes) != 1 || int(o.RingBytes) < os.Getpagesize() {
		return o, fmt.Errorf("ring of %d bytes: want a power of two, and at least %d", o.RingBytes, os.Getpagesize())
	}
	if o.MaxProcesses < minProcesses {
		return o, fmt.Errorf("room for %d processes: want at least %d", o.MaxProcesses, minProcesses)
	}
	if len(o.Emulators) > maxEmulators {
		return o, fmt.Errorf("%d emulators: want at most %d", len(o.Emulators), maxEmulators)
	}
	for _, name := range o.Emulators {
		if name == "" || len(name) >= nameSize || strings.ContainsAny(name, "/\x00") {
			return o, fmt.Errorf("emulator %q: want the base name of a file, 1 to %d bytes", name, nameSize-1)
		}
	}
	return o, nil
}

// limit enters who may have how much of the map of processes.
func (o Options) limit(s *trackerSettings) {
	s.Ordinary = o.MaxProcesses / 4 * 3
	s.Share = o.MaxProcesses / 8
	s.ShareTotal = s.Share + s.Share/2
}

// size gives the maps the sizes that the options ask for.
func (o Options) size(spec *ebpf.CollectionSpec) {
	spec.Maps[trackerMapProcesses].MaxEntries = o.MaxProcesses
	spec.Maps[trackerMapGroups].MaxEntries = o.MaxGroups
	spec.Maps[trackerMapEvents].MaxEntries = o.RingBytes
}
