package poddir

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// touchPause is how long the watch ignores a file after a touch. It bounds the delay that a pod
	// causes itself by an earlier touch of the same file.
	touchPause = 100 * time.Millisecond

	// touchPoll is the period of scans of all pods, touchPollDegraded the period while kernel
	// notifications are incomplete.
	touchPoll         = 10 * time.Second
	touchPollDegraded = time.Second
)

// Watch calls changed with the UID of each pod after a change of its [Touched], until ctx is done.
// Then it returns nil. It starts with the pods that have already touched a file, and follows the
// directories of Create and DiscardUnless. Only one Watch may run at a time.
//
// All calls of changed come from one goroutine, and delay the files of all pods: changed should
// only record the UID. Calls may be spurious; [Dirs.Touched] has the current state.
//
// Kernel notifications (inotify) make the watch fast, and a scan of all pods every ten seconds
// makes it reliable. After a touch the watch ignores the file for a tenth of a second and then
// reads it. So a pod that touches its files in a loop costs a bounded amount of time, delays only
// itself, and cannot fill the queue shared by all pods. Without notifications, for lack of
// instances or watches, the scan runs every second, and Logger gets a warning.
func (d *Dirs) Watch(ctx context.Context, changed func(uid string)) error {
	w := newTouchWatch(d, changed)
	if !d.changes.start() {
		return errors.New("watch pod directories: already watched")
	}
	defer d.changes.stop()
	w.run(ctx)
	return nil
}

// touchWatch is used by one goroutine.
type touchWatch struct {
	dirs    *Dirs
	changed func(uid string)
	logger  *slog.Logger
	connect func() (*fsnotify.Watcher, error)

	pause, poll, pollDegraded time.Duration

	inotify     *fsnotify.Watcher    // nil: no connection
	reported    map[string]time.Time // last reported heartbeat of each pod
	paused      map[string]string    // UIDs by ignored files
	lost        bool                 // notifications were lost: scan all pods after the pause
	degraded    bool                 // some pods have no notifications
	wasDegraded bool                 // degraded in the previous round

	resume, round *time.Timer
	resuming      bool // a timer for resume is running
}

func newTouchWatch(d *Dirs, changed func(string)) *touchWatch {
	w := &touchWatch{
		dirs: d, changed: changed, logger: d.Logger, connect: fsnotify.NewWatcher,
		pause: touchPause, poll: touchPoll, pollDegraded: touchPollDegraded,
		reported: map[string]time.Time{}, paused: map[string]string{},
	}
	if w.logger == nil {
		w.logger = slog.New(slog.DiscardHandler)
	}
	return w
}

func (w *touchWatch) run(ctx context.Context) {
	w.resume, w.round = time.NewTimer(w.pause), time.NewTimer(w.poll)
	defer w.resume.Stop()
	defer w.round.Stop()
	w.resume.Stop()
	defer w.disconnect()
	w.scanAll()
	for {
		events, faults := w.channels()
		select {
		case <-ctx.Done():
			return
		case <-w.dirs.changes.some:
			for uid := range w.dirs.changes.take() {
				w.follow(uid)
			}
		case event, ok := <-events:
			w.handleEvent(event, ok)
		case err, ok := <-faults:
			w.missed(err, ok)
		case <-w.resume.C:
			w.listenAgain()
		case <-w.round.C:
			w.scanAll()
		}
	}
}

func (w *touchWatch) channels() (<-chan fsnotify.Event, <-chan error) {
	if w.inotify == nil {
		return nil, nil
	}
	return w.inotify.Events, w.inotify.Errors
}

func (w *touchWatch) disconnect() {
	if w.inotify != nil {
		w.inotify.Close()
		w.inotify = nil
	}
}

// handleEvent stops watching the file before it reads it. A later touch is found when watching
// starts again.
func (w *touchWatch) handleEvent(event fsnotify.Event, ok bool) {
	if !ok {
		w.missed(fsnotify.ErrClosed, false)
		return
	}
	uid := filepath.Base(filepath.Dir(filepath.Dir(event.Name)))
	if _, paused := w.paused[event.Name]; paused {
		return // already in the queue
	}
	if _, there := w.reported[uid]; !there {
		return
	}
	w.unlisten(event.Name)
	w.paused[event.Name] = uid
	w.schedule()
	w.scan(uid)
}

// schedule starts one pause for all ignored files.
func (w *touchWatch) schedule() {
	if !w.resuming {
		w.resuming = true
		w.resume.Reset(w.pause)
	}
}

// missed records that notifications were lost, because the queue overflowed or was closed.
func (w *touchWatch) missed(err error, open bool) {
	w.logger.Warn("lost notifications about pods' files, scanning all pods", "error", err)
	if !open {
		w.disconnect()
	}
	w.lost = true
	w.schedule()
}

func (w *touchWatch) listenAgain() {
	w.resuming = false
	paused := w.paused
	w.paused = map[string]string{}
	for file, uid := range paused {
		w.listen(file)
		w.scan(uid)
	}
	if w.lost {
		w.lost = false
		w.scanAll()
	}
}

// scanAll reads every directory. After failures it also tries to watch again.
func (w *touchWatch) scanAll() {
	uids, err := namesIn(w.dirs.pods)
	if err != nil {
		w.logger.Warn("cannot list pod directories", "error", err)
	}
	again := w.reconnect()
	there := make(map[string]struct{}, len(uids))
	for _, uid := range uids {
		there[uid] = struct{}{}
		if _, known := w.reported[uid]; !known || again {
			w.follow(uid)
		} else {
			w.scan(uid)
		}
	}
	for uid := range w.reported {
		if _, ok := there[uid]; !ok && err == nil {
			w.forget(uid)
		}
	}
	w.nextRound()
}

// reconnect restores a lost connection, and reports whether all pods need new watches.
func (w *touchWatch) reconnect() bool {
	w.wasDegraded, w.degraded = w.degraded, false
	if w.inotify != nil {
		return w.wasDegraded
	}
	inotify, err := w.connect()
	if err != nil {
		w.cannotListen(err)
		return false
	}
	w.inotify = inotify
	return true
}

// cannotListen logs the first failure. Later ones are probably the same.
func (w *touchWatch) cannotListen(err error) {
	if !w.degraded && !w.wasDegraded {
		w.logger.Warn("no kernel notifications about pods' files, scanning all pods periodically",
			"every", w.pollDegraded, "error", err)
	}
	w.degraded = true
}

func (w *touchWatch) nextRound() {
	switch {
	case w.degraded:
		w.round.Reset(w.pollDegraded)
		return
	case w.wasDegraded:
		w.logger.Info("kernel notifications about pods' files work again")
	}
	w.wasDegraded = false
	w.round.Reset(w.poll)
}

// follow watches a pod's files, which may be new ones. Touched has verified that they are pipes,
// not links.
func (w *touchWatch) follow(uid string) {
	w.forget(uid)
	if _, err := w.dirs.Touched(uid); err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			w.logger.Warn("cannot read a pod's files", "error", err)
		}
		return
	}
	w.reported[uid] = time.Time{}
	for _, file := range w.files(uid) {
		w.listen(file)
	}
	w.scan(uid)
}

func (w *touchWatch) forget(uid string) {
	for _, file := range w.files(uid) {
		w.unlisten(file)
		delete(w.paused, file)
	}
	delete(w.reported, uid)
}

func (w *touchWatch) files(uid string) []string {
	dir := w.dirs.Dir(uid)
	return []string{dir.Heartbeat, dir.Stop}
}

func (w *touchWatch) listen(file string) {
	if w.inotify == nil {
		return
	}
	if err := w.inotify.Add(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.cannotListen(err)
		w.round.Reset(w.pollDegraded)
	}
}

func (w *touchWatch) unlisten(file string) {
	if w.inotify != nil {
		w.inotify.Remove(file) //nolint:errcheck // the kernel drops the watch of a deleted file
	}
}

// scan reports a pod with a new heartbeat or a stop request. It repeats a pending request, because
// an answer and the next request can have the same time on the kernel's coarse clock.
func (w *touchWatch) scan(uid string) {
	reported, ok := w.reported[uid]
	if !ok {
		return
	}
	touched, err := w.dirs.Touched(uid)
	if err != nil {
		return // gone, or Create repairs it; both are reported
	}
	if touched.StopRequested || !touched.Heartbeat.Equal(reported) {
		w.reported[uid] = touched.Heartbeat
		w.changed(uid)
	}
}
