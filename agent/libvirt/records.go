package libvirt

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/api/agentapi"
)

const recordSuffix = ".xml"

// maxRecord is the greatest accepted size of a record, in bytes. The record of a domain with
// hundreds of devices has some 500 KiB.
const maxRecord = 8 << 20

// Records are libvirt's files about running domains. The methods block on the file system.
// They are safe for concurrent use.
type Records struct {
	Dir string // such as /run/libvirt/qemu

	// Logger gets the reason why Watch has to poll. It may be nil.
	Logger *slog.Logger
}

// Record is a file of [Records].
type Record struct {
	Domain
	Owner   agentapi.PodRef // in the domain's metadata; zero: none
	Version Version
}

// Version differs for each content of a record: libvirt replaces the file at each change. Compare
// versions only for equality, because the wall clock may be set.
type Version struct {
	inode             uint64
	modified, changed unix.Timespec
}

// List returns the running domains in the order of their names. If some records are
// unreadable, it returns the other domains and an error. Otherwise it is like Scan.
func (r Records) List() (domains []Domain, err error) {
	all, unreadable, err := r.Scan()
	for _, record := range all {
		domains = append(domains, record.Domain)
	}
	faults := []error{err}
	for _, name := range slices.Sorted(maps.Keys(unreadable)) {
		faults = append(faults, unreadable[name])
	}
	return domains, errors.Join(faults...)
}

// Scan returns the records of running domains in the order of their names, and errors by the name
// of the domain with an unreadable record. For an absent directory err wraps [fs.ErrNotExist]:
// libvirt has not run since the node's boot, or uses another directory.
func (r Records) Scan() (all []Record, unreadable map[string]error, err error) {
	dir, err := os.Open(r.Dir)
	if err != nil {
		return nil, nil, fmt.Errorf("records of libvirt: %w", err)
	}
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return nil, nil, fmt.Errorf("records of libvirt: %w", err)
	}
	unreadable = map[string]error{}
	for _, name := range recordNames(entries) {
		record, ok, err := readRecord(dir, name)
		if err != nil {
			unreadable[strings.TrimSuffix(name, recordSuffix)] =
				fmt.Errorf("record of libvirt %s: %w", filepath.Join(r.Dir, name), err)
		}
		if ok {
			all = append(all, record)
		}
	}
	return all, unreadable, nil
}

// Runs returns nil if libvirt's record agrees with d about UUID and process. For another
// process the error wraps [ErrOtherProcess], without a record [ErrNoDomain].
func (r Records) Runs(d Domain) error {
	dir, err := os.Open(r.Dir)
	if err != nil {
		return fmt.Errorf("records of libvirt: %w", err)
	}
	defer dir.Close()
	now, ok, err := readRecord(dir, d.Name+recordSuffix)
	switch {
	case err != nil:
		return fmt.Errorf("record of libvirt %s: %w", filepath.Join(r.Dir, d.Name+recordSuffix),
			err)
	case !ok:
		return fmt.Errorf("%w: there is no record of %s", ErrNoDomain, d.Name)
	case now.Domain != d:
		return fmt.Errorf("%w %s: %s in process %d, want %s in process %d",
			ErrOtherProcess, d.Name, now.UUID, now.PID, d.UUID, d.PID)
	}
	return nil
}

// recordNames returns the sorted names of records. libvirt's temporary files have another
// suffix.
func recordNames(entries []fs.DirEntry) (names []string) {
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), recordSuffix) {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names
}

// readRecord reads one record of the directory. ok and err are the results of parse. For a
// record that no longer exists, ok is false and err is nil.
func readRecord(dir *os.File, name string) (record Record, ok bool, err error) {
	f, version, err := openRecord(dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return record, false, nil
	}
	if err != nil {
		return record, false, err
	}
	defer f.Close()
	record, ok, err = parse(bufio.NewReader(f))
	if err == nil && ok && record.Name+recordSuffix != name {
		return Record{}, false, fmt.Errorf("the record is about domain %q", record.Name)
	}
	record.Version = version
	return record, ok, err
}

// openRecord opens a regular file of root or of this process's user. It follows no link, and
// never blocks.
func openRecord(dir *os.File, name string) (*os.File, Version, error) {
	const flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := unix.Openat(int(dir.Fd()), name, flags, 0)
	if err != nil {
		return nil, Version{}, fmt.Errorf("open: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	var stat unix.Stat_t
	if err = unix.Fstat(fd, &stat); err == nil {
		err = checkRecord(&stat)
	}
	if err != nil {
		f.Close()
		return nil, Version{}, err
	}
	return f, Version{inode: stat.Ino, modified: stat.Mtim, changed: stat.Ctim}, nil
}

func checkRecord(stat *unix.Stat_t) error {
	switch {
	case stat.Mode&unix.S_IFMT != unix.S_IFREG:
		return errors.New("want a regular file")
	case stat.Uid != 0 && int(stat.Uid) != os.Geteuid():
		return fmt.Errorf("owned by uid %d: want root", stat.Uid)
	case stat.Size > maxRecord:
		return fmt.Errorf("%d bytes: want at most %d", stat.Size, maxRecord)
	}
	return nil
}
