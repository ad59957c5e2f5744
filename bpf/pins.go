package bpf

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// schema is the version of layout and meaning of the maps of groups and processes. It stays the
// same when another map or a number of entries changes: Open then copies groups and processes.
// Programs of another build use the same maps. A change of struct process needs the next schema,
// and a conversion from each older one in [Tracker.copyProcesses].
const schema = 2

// pins is a locked directory of pins. It holds generations of maps, and each generation holds its
// programs:
//
//	v2-3/                  schema 2, third generation
//	    processes, ...     maps
//	    build-0123456789ab/
//	        handle_fork, ...           links
//	        handle_fork_program, ...   programs
//	        ready/         created last: all pins are there
//	    ready/
type pins struct {
	dir  string
	lock *os.File
}

const (
	ready         = "ready"
	buildPrefix   = "build-"
	programSuffix = "_program"
)

// openPins creates the directory and locks it until close.
func openPins(dir string) (*pins, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("directory of pins: %w", err)
	}
	if err := wantBPFFS(dir); err != nil {
		return nil, err
	}
	lock, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("directory of pins: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = lock.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("pins in %s: %w by another process", dir, ErrBusy)
		}
		return nil, fmt.Errorf("locking %s: %w", dir, err)
	}
	return &pins{dir: dir, lock: lock}, nil
}

func wantBPFFS(dir string) error {
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return fmt.Errorf("directory of pins %s: %w", dir, err)
	}
	if stat.Type != unix.BPF_FS_MAGIC {
		return unsupported("%s is not in a bpf file system: mount -t bpf bpf /sys/fs/bpf", dir)
	}
	return nil
}

func (p *pins) close() error {
	return p.lock.Close()
}

// generation is one set of pinned maps.
type generation struct {
	schema, number int
}

func (g generation) name() string {
	return fmt.Sprintf("v%d-%d", g.schema, g.number)
}

// generations returns the complete generations, newest last, and the names of incomplete ones.
func generations(dir string) (complete []generation, partial []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("directory of pins: %w", err)
	}
	for _, e := range entries {
		var g generation
		if _, err := fmt.Sscanf(e.Name(), "v%d-%d", &g.schema, &g.number); err != nil ||
			g.name() != e.Name() {
			continue
		}
		if isReady(filepath.Join(dir, e.Name())) {
			complete = append(complete, g)
		} else {
			partial = append(partial, e.Name())
		}
	}
	slices.SortFunc(complete, func(a, b generation) int { return cmp.Compare(a.number, b.number) })
	return complete, partial, nil
}

// current returns the newest complete generation and removes all others, which an interrupted
// take-over left. The zero generation means none.
func (p *pins) current() (generation, error) {
	complete, leftover, err := generations(p.dir)
	if err != nil {
		return generation{}, err
	}
	var newest generation
	if n := len(complete); n > 0 {
		newest = complete[n-1]
		for _, g := range complete[:n-1] {
			leftover = append(leftover, g.name())
		}
	}
	for _, name := range leftover {
		if err := removePins(filepath.Join(p.dir, name)); err != nil {
			return generation{}, err
		}
	}
	return newest, nil
}

// checkSchema returns [ErrSchema] for a generation whose groups and processes have another layout.
func checkSchema(dir string, g generation) error {
	path := filepath.Join(dir, g.name())
	if g.schema != schema {
		return fmt.Errorf("pins in %s: %w: schema %d, this version knows %d. %s", path, ErrSchema,
			g.schema, schema, schemaRemedy)
	}
	m, err := pinnedMaps(path, trackerMapGroups, trackerMapProcesses)
	if err != nil {
		return err
	}
	group, process := m[trackerMapGroups].ValueSize(), m[trackerMapProcesses].ValueSize()
	if want := uint32(unsafe.Sizeof(trackerProcess{})); group != 8 || process != want {
		err = fmt.Errorf("pins in %s: %w: entries of %d and %d bytes, this version knows 8 and "+
			"%d. %s", path, ErrSchema, group, process, want, schemaRemedy)
	}
	return errors.Join(err, m.close())
}

const schemaRemedy = "Run the version that made them, or remove the directory: processes outside " +
	"of their launcher's cgroup then lose their launcher"

func isReady(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, ready))
	return err == nil
}

func markReady(dir string) error {
	if err := os.Mkdir(filepath.Join(dir, ready), 0o700); err != nil {
		return fmt.Errorf("completing pins: %w", err)
	}
	return nil
}

// removePins removes a directory of pins, its ready mark first.
func removePins(dir string) error {
	err := os.Remove(filepath.Join(dir, ready))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing pins: %w", err)
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("removing pins: %w", err)
	}
	return nil
}

// buildDir is the directory for the programs of this build.
func (o Options) buildDir(generation string) string {
	build := o.build
	if build == "" {
		sum := sha256.Sum256(_TrackerBytes)
		build = hex.EncodeToString(sum[:6])
	}
	return filepath.Join(generation, buildPrefix+build)
}

// removeOtherBuilds detaches the programs of other builds.
func removeOtherBuilds(generation, keep string) (removed []string, err error) {
	entries, err := os.ReadDir(generation)
	if err != nil {
		return nil, fmt.Errorf("directory of pins: %w", err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), buildPrefix) && e.Name() != filepath.Base(keep) {
			if err := removePins(filepath.Join(generation, e.Name())); err != nil {
				return removed, err
			}
			removed = append(removed, e.Name())
		}
	}
	return removed, nil
}
