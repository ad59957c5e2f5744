// Package journal keeps the record of a resize in a file. The record survives the death of the shim
// and a crash of the node.
package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/mooring-vm/mooring/shim/resize"
)

const (
	name   = "resize.json"
	newExt = ".new" // temporary file of a write
	badExt = ".bad" // unreadable file

	// maxSize bounds the file. A record has a few KiB.
	maxSize = 1 << 20
)

// File is a [resize.Journal] in a directory used by nothing else, such as an emptyDir of the
// sidecar. The pod directory is not suitable, because it is read-only inside the pod.
//
// Its methods must not run concurrently.
type File struct {
	root *os.Root
	dir  *os.File // the same directory, for fsync
}

var _ resize.Journal = (*File)(nil)

// Open opens the journal in an existing directory. It follows no symbolic link out of the
// directory.
func Open(dir string) (*File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the journal: %w", err)
	}
	opened, err := root.Open(".")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the journal: %w", err), root.Close())
	}
	return &File{root, opened}, nil
}

// Close closes the journal.
func (f *File) Close() error { return errors.Join(f.dir.Close(), f.root.Close()) }

// Load implements resize.Journal. It moves an unreadable file to resize.json.bad, and replaces an
// older one there.
func (f *File) Load() (resize.Record, error) {
	text, err := f.read()
	if errors.Is(err, fs.ErrNotExist) {
		return resize.Record{}, resize.ErrNoRecord
	}
	if err != nil {
		return resize.Record{}, fmt.Errorf("read %s: %w", name, err)
	}
	record, err := decode(text)
	if err != nil {
		err = fmt.Errorf("%s is unreadable and was moved to %s: %w", name, name+badExt, err)
		return resize.Record{}, errors.Join(err, f.root.Rename(name, name+badExt))
	}
	return record, nil
}

func (f *File) read() (text []byte, err error) {
	file, err := f.root.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return io.ReadAll(io.LimitReader(file, maxSize+1))
}

func decode(text []byte) (resize.Record, error) {
	if len(text) > maxSize {
		return resize.Record{}, fmt.Errorf("larger than %d bytes", maxSize)
	}
	return resize.DecodeRecord(text)
}

// Store implements resize.Journal.
func (f *File) Store(r resize.Record) error {
	text, err := r.Encode()
	if err != nil {
		return err
	}
	if err := f.write(text); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// write replaces the file atomically.
func (f *File) write(text []byte) error {
	file, err := f.root.OpenFile(name+newExt, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := f.root.Rename(name+newExt, name); err != nil {
		return err
	}
	return f.dir.Sync()
}
