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

// pollEvery is the time between two looks where the kernel does not notify.
const pollEvery = 5 * time.Second

// Watch calls changed once at its start, and then whenever records may have come, gone
// or changed, until ctx is done. Calls follow one another; what happens during one
// leads to a single one after it. The directory may come later, or go and come again.
//
// Where the kernel gives no notifications (inotify), for lack of instances or watches,
// changed is called every five seconds until it does, and Logger is told.
func (r Records) Watch(ctx context.Context, changed func()) {
	newWatch(r).run(ctx, changed)
}

// watch belongs to one goroutine.
type watch struct {
	dir     string
	logger  *slog.Logger
	connect func() (*fsnotify.Watcher, error)
	poll    time.Duration
	dirty   chan struct{}
	deaf    bool // and that was told
}

func newWatch(r Records) *watch {
	w := &watch{
		dir: filepath.Clean(r.Dir), logger: r.Logger, connect: fsnotify.NewWatcher,
		poll: pollEvery, dirty: make(chan struct{}, 1),
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

// listen returns false when ctx is done, and true to be called again, a while after the
// kernel has refused to notify.
func (w *watch) listen(ctx context.Context) bool {
	err := w.follow(ctx)
	if err == nil {
		return false
	}
	if !w.deaf {
		w.deaf = true
		w.logger.Warn("the kernel does not notify of libvirt's records; they are looked at every so often instead",
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

// follow watches the directory or, where that is not there, the nearest one above it
// that is, and marks as dirty what it sees. The error says that nothing can be watched.
func (w *watch) follow(ctx context.Context) error {
	watcher, err := w.connect()
	if err != nil {
		return err
	}
	defer watcher.Close()
	at, err := watchNearest(watcher, w.dir)
	if err == nil && w.deaf {
		w.deaf = false
		w.logger.Info("the kernel notifies of libvirt's records again", "dir", w.dir)
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
			_ = watcher.Remove(at) // it may be gone, and its watch with it
			before := at
			if at, err = watchNearest(watcher, w.dir); at == w.dir || before == w.dir {
				mark(w.dirty)
			}
		case <-watcher.Errors: //nolint:errcheck // such as an overflow of the kernel's queue: what it was is no matter
			mark(w.dirty)
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
