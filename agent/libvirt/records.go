package libvirt

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const recordSuffix = ".xml"

// maxRecord is the largest record, in bytes, that is read. A domain with hundreds of
// devices has some 500 KiB.
const maxRecord = 8 << 20

// Records are the files that libvirt keeps of running domains. Its methods block on
// the file system, and may be called from several goroutines at once.
type Records struct {
	Dir string // such as /run/libvirt/qemu

	// Logger is told what keeps Watch from hearing of changes at once; nil: nobody is.
	Logger *slog.Logger
}

// List returns the running domains in the order of their names. Where some records
// cannot be read, it returns the others with the error. A directory that is not there
// is an error that wraps [fs.ErrNotExist]: libvirt has not run since the node booted,
// or is elsewhere.
func (r Records) List() (domains []Domain, err error) {
	dir, err := os.Open(r.Dir)
	if err != nil {
		return nil, fmt.Errorf("records of libvirt: %w", err)
	}
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return nil, fmt.Errorf("records of libvirt: %w", err)
	}
	var faults []error
	for _, name := range recordsAmong(entries) {
		d, ok, err := readRecord(dir, name)
		if err != nil {
			faults = append(faults, fmt.Errorf("record of libvirt %s: %w", filepath.Join(r.Dir, name), err))
		}
		if ok {
			domains = append(domains, d)
		}
	}
	return domains, errors.Join(faults...)
}

// Runs returns nil if, by libvirt's record, the domain is run by the process that d
// says. Where another one does the error wraps [ErrOtherProcess], where there is no
// record [ErrNoDomain].
func (r Records) Runs(d Domain) error {
	dir, err := os.Open(r.Dir)
	if err != nil {
		return fmt.Errorf("records of libvirt: %w", err)
	}
	defer dir.Close()
	now, ok, err := readRecord(dir, d.Name+recordSuffix)
	switch {
	case err != nil:
		return fmt.Errorf("record of libvirt %s: %w", filepath.Join(r.Dir, d.Name+recordSuffix), err)
	case !ok:
		return fmt.Errorf("%w: there is no record of %s", ErrNoDomain, d.Name)
	case now != d:
		return fmt.Errorf("%w %s: %s in process %d, and %s in %d was meant", ErrOtherProcess, d.Name, now.UUID, now.PID, d.UUID, d.PID)
	}
	return nil
}

// recordsAmong returns the names of files that may be records, sorted. What libvirt is
// about to rename ends otherwise.
func recordsAmong(entries []fs.DirEntry) (names []string) {
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), recordSuffix) {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names
}

// readRecord reads one record of the directory, as parse does. One that is gone
// meanwhile is no error.
func readRecord(dir *os.File, name string) (d Domain, ok bool, err error) {
	f, err := openRecord(dir, name)
	if errors.Is(err, fs.ErrNotExist) {
		return d, false, nil
	}
	if err != nil {
		return d, false, err
	}
	defer f.Close()
	d, ok, err = parse(bufio.NewReader(f))
	if err == nil && ok && d.Name+recordSuffix != name {
		return Domain{}, false, fmt.Errorf("it is about domain %q", d.Name)
	}
	return d, ok, err
}

// openRecord opens a regular file of root's, or of whoever this runs as: no link, and
// nothing that opening would wait for.
func openRecord(dir *os.File, name string) (*os.File, error) {
	const flags = unix.O_RDONLY | unix.O_NOFOLLOW | unix.O_NONBLOCK | unix.O_CLOEXEC
	fd, err := unix.Openat(int(dir.Fd()), name, flags, 0)
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	var stat unix.Stat_t
	if err = unix.Fstat(fd, &stat); err == nil {
		err = checkRecord(&stat)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
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
