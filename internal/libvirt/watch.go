package libvirt

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
)

// Watch calls changed once at its start, and then whenever records may have come, gone
// or changed, until ctx is done. Calls follow one another; what happens during one
// leads to a single one after it. The directory may come later, or go and come again.
// The error says that the kernel lets nothing be watched.
func (r Records) Watch(ctx context.Context, changed func()) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch records of libvirt %s: %w", r.Dir, err)
	}
	defer watcher.Close()
	dirty, done := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(done)
		for range dirty {
			changed()
		}
	}()
	err = follow(ctx, watcher, filepath.Clean(r.Dir), dirty)
	close(dirty)
	<-done
	if err != nil {
		return fmt.Errorf("watch records of libvirt %s: %w", r.Dir, err)
	}
	return nil
}

// follow watches the directory or, where that is not there, the nearest one above it
// that is, and marks as dirty what it sees.
func follow(ctx context.Context, watcher *fsnotify.Watcher, dir string, dirty chan<- struct{}) error {
	at, err := watchNearest(watcher, dir)
	mark(dirty)
	for err == nil {
		select {
		case <-ctx.Done():
			return nil
		case event := <-watcher.Events:
			if at == dir && event.Name != dir {
				if isRecord(event) {
					mark(dirty)
				}
				continue
			}
			_ = watcher.Remove(at) // it may be gone, and its watch with it
			before := at
			if at, err = watchNearest(watcher, dir); at == dir || before == dir {
				mark(dirty)
			}
		case <-watcher.Errors: //nolint:errcheck // such as an overflow of the kernel's queue: what it was is no matter
			mark(dirty)
		}
	}
	return err
}

// mark does not block: one mark is enough.
func mark(dirty chan<- struct{}) {
	select {
	case dirty <- struct{}{}:
	default:
	}
}

// isRecord reports whether an event is about a record. Renaming one into place creates
// it.
func isRecord(event fsnotify.Event) bool {
	return strings.HasSuffix(event.Name, recordSuffix) && event.Op&^fsnotify.Chmod != 0
}

// watchNearest watches dir, or the nearest directory above it that is there, and
// returns which.
func watchNearest(watcher *fsnotify.Watcher, dir string) (at string, err error) {
	for at = dir; ; {
		err = watcher.Add(at)
		absent := errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR)
		switch {
		case err == nil && (at == dir || !exists(toward(at, dir))):
			return at, nil
		case err == nil: // it has come meanwhile
			_ = watcher.Remove(at)
			at = dir
		case absent && at != filepath.Dir(at):
			at = filepath.Dir(at)
		default:
			return "", err
		}
	}
}

// toward returns what is below at on the way to dir.
func toward(at, dir string) string {
	for filepath.Dir(dir) != at {
		dir = filepath.Dir(dir)
	}
	return dir
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
