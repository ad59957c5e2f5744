package libvirt

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sys/unix"
)

// pollPeriod is the time between two calls if the kernel sends no notifications.
const pollPeriod = 5 * time.Second

// Watch calls changed once at its start, and then after changes of records, until ctx ends.
// Calls do not overlap. All changes during a call lead to a single further call. The directory
// may appear later, and may disappear and appear again.
//
// Without notifications of the kernel (inotify), for lack of instances or watches, Watch logs
// the reason and calls changed every five seconds until notifications work.
func (r Records) Watch(ctx context.Context, changed func()) {
	newWatch(r).run(ctx, changed)
}

// watch is the state of Watch. It is for one goroutine.
type watch struct {
	dir     string
	logger  *slog.Logger
	connect func() (*fsnotify.Watcher, error)
	poll    time.Duration
	dirty   chan struct{}
	polling bool // without notifications; the reason is logged
}

func newWatch(r Records) *watch {
	w := &watch{
		dir: filepath.Clean(r.Dir), logger: r.Logger, connect: fsnotify.NewWatcher,
		poll: pollPeriod, dirty: make(chan struct{}, 1),
	}
	if w.logger == nil {
		w.logger = slog.New(slog.DiscardHandler)
	}
	return w
}

func (w *watch) run(ctx context.Context, changed func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range w.dirty {
			changed()
		}
	}()
	for again := true; again; {
		again = w.listen(ctx)
	}
	close(w.dirty)
	<-done
}

// listen returns false when ctx ends. If the kernel refuses notifications, it waits and
// returns true: the caller must call it again.
func (w *watch) listen(ctx context.Context) bool {
	err := w.follow(ctx)
	if err == nil {
		return false
	}
	if !w.polling {
		w.polling = true
		w.logger.Warn("the kernel sends no notifications about libvirt's records; the agent "+
			"polls them instead",
			"every", w.poll, "dir", w.dir, "error", err)
	}
	mark(w.dirty)
	select {
	case <-ctx.Done():
		return false
	case <-time.After(w.poll):
		return true
	}
}

// follow watches the directory, or its nearest existing parent, and marks the records as dirty
// after changes. It returns an error if the kernel refuses a watch.
func (w *watch) follow(ctx context.Context) error {
	watcher, err := w.connect()
	if err != nil {
		return err
	}
	defer watcher.Close()
	at, err := watchNearest(watcher, w.dir)
	if err == nil && w.polling {
		w.polling = false
		w.logger.Info("the kernel sends notifications about libvirt's records again", "dir", w.dir)
	}
	mark(w.dirty)
	for err == nil {
		select {
		case <-ctx.Done():
			return nil
		case event := <-watcher.Events:
			if at == w.dir && event.Name != w.dir {
				if isRecord(event) {
					mark(w.dirty)
				}
				continue
			}
			_ = watcher.Remove(at) // fails if the directory is gone
			before := at
			if at, err = watchNearest(watcher, w.dir); at == w.dir || before == w.dir {
				mark(w.dirty)
			}
		case <-watcher.Errors: //nolint:errcheck // such as an overflow of the kernel's queue
			mark(w.dirty)
		}
	}
	return err
}

// mark never blocks: one mark is enough.
func mark(dirty chan<- struct{}) {
	select {
	case dirty <- struct{}{}:
	default:
	}
}

// isRecord reports whether an event is about a record. A rename into place is a creation.
func isRecord(event fsnotify.Event) bool {
	return strings.HasSuffix(event.Name, recordSuffix) && event.Op&^fsnotify.Chmod != 0
}

// watchNearest watches dir or its nearest existing parent, and returns the watched directory.
func watchNearest(watcher *fsnotify.Watcher, dir string) (at string, err error) {
	for at = dir; ; {
		err = watcher.Add(at)
		absent := errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR)
		switch {
		case err == nil && (at == dir || !exists(toward(at, dir))):
			return at, nil
		case err == nil: // the next directory has appeared meanwhile
			_ = watcher.Remove(at)
			at = dir
		case absent && at != filepath.Dir(at):
			at = filepath.Dir(at)
		default:
			return "", err
		}
	}
}

// toward returns the child of at on the path to dir.
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
