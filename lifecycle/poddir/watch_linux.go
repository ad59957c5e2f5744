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
	// signPause is how long a file is not listened to after it was touched: the
	// most that a pod delays a sign of its own by touching the same file before.
	signPause = 100 * time.Millisecond

	// signPoll is the time between two looks at all pods, and signPollDeaf the same
	// while not all of them can be listened to.
	signPoll     = 10 * time.Second
	signPollDeaf = time.Second
)

// Watch calls changed with the UID of each pod whose [Touched] may have changed, until
// ctx is done; then it returns nil. It begins with the pods that have told something
// already. It follows the directories that Create and DiscardUnless make and take
// away, and may be called once at a time.
//
// changed is called from one goroutine, now and then without need, and keeps the signs
// of all pods waiting: it should only note the UID. It is a hint: what holds is what
// Signs says then.
//
// The kernel's notifications (inotify) make it quick, and a look at all pods every ten
// seconds makes it right. A file that was touched is not listened to for a tenth of a
// second, and then looked at: so a pod that touches its files without pause takes a
// bounded amount of time, delays nothing but itself, and does not fill the queue that
// all pods share. Where the kernel gives no notifications, for lack of instances or
// watches, the look at all pods is taken every second instead, and Logger is told.
func (d *Dirs) Watch(ctx context.Context, changed func(uid string)) error {
	w := newSignWatch(d, changed)
	if !d.changes.begin() {
		return errors.New("watch pod directories: they are watched already")
	}
	defer d.changes.end()
	w.run(ctx)
	return nil
}

// signWatch belongs to one goroutine.
type signWatch struct {
	dirs    *Dirs
	changed func(uid string)
	logger  *slog.Logger
	connect func() (*fsnotify.Watcher, error)

	pause, poll, pollDeaf time.Duration

	inotify *fsnotify.Watcher    // nil: there is none
	told    map[string]time.Time // the heartbeat that was told last, of each pod that is there
	paused  map[string]string    // UIDs by the files that are not listened to for a while
	lost    bool                 // notifications were lost: look at all after the pause
	deaf    bool                 // not all pods can be listened to
	wasDeaf bool                 // at the round before

	resume, round *time.Timer
	resuming      bool // resume runs
}

func newSignWatch(d *Dirs, changed func(string)) *signWatch {
	w := &signWatch{
		dirs: d, changed: changed, logger: d.Logger, connect: fsnotify.NewWatcher,
		pause: signPause, poll: signPoll, pollDeaf: signPollDeaf,
		told: map[string]time.Time{}, paused: map[string]string{},
	}
	if w.logger == nil {
		w.logger = slog.New(slog.DiscardHandler)
	}
	return w
}

func (w *signWatch) run(ctx context.Context) {
	w.resume, w.round = time.NewTimer(w.pause), time.NewTimer(w.poll)
	defer w.resume.Stop()
	defer w.round.Stop()
	w.resume.Stop()
	defer w.disconnect()
	w.lookAtAll()
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
			w.heard(event, ok)
		case err, ok := <-faults:
			w.missed(err, ok)
		case <-w.resume.C:
			w.listenAgain()
		case <-w.round.C:
			w.lookAtAll()
		}
	}
}

func (w *signWatch) channels() (<-chan fsnotify.Event, <-chan error) {
	if w.inotify == nil {
		return nil, nil
	}
	return w.inotify.Events, w.inotify.Errors
}

func (w *signWatch) disconnect() {
	if w.inotify != nil {
		w.inotify.Close()
		w.inotify = nil
	}
}

// heard takes the watch off before it looks: what the pod does from then on is found
// when the watch is put on again.
func (w *signWatch) heard(event fsnotify.Event, ok bool) {
	if !ok {
		w.missed(fsnotify.ErrClosed, false)
		return
	}
	uid := filepath.Base(filepath.Dir(filepath.Dir(event.Name)))
	if _, paused := w.paused[event.Name]; paused {
		return // was in the queue already
	}
	if _, there := w.told[uid]; !there {
		return
	}
	w.unlisten(event.Name)
	w.paused[event.Name] = uid
	w.schedule()
	w.look(uid)
}

// schedule makes one pause serve all that want one.
func (w *signWatch) schedule() {
	if !w.resuming {
		w.resuming = true
		w.resume.Reset(w.pause)
	}
}

// missed says that notifications were lost, because the queue was full or is no more.
func (w *signWatch) missed(err error, open bool) {
	w.logger.Warn("notifications of pods' signs were lost; all are looked at", "error", err)
	if !open {
		w.disconnect()
	}
	w.lost = true
	w.schedule()
}

func (w *signWatch) listenAgain() {
	w.resuming = false
	paused := w.paused
	w.paused = map[string]string{}
	for file, uid := range paused {
		w.listen(file)
		w.look(uid)
	}
	if w.lost {
		w.lost = false
		w.lookAtAll()
	}
}

// lookAtAll looks at every directory there is. After failures it also tries to
// listen again.
func (w *signWatch) lookAtAll() {
	uids, err := namesIn(w.dirs.pods)
	if err != nil {
		w.logger.Warn("pod directories cannot be listed", "error", err)
	}
	again := w.tryAgain()
	there := make(map[string]struct{}, len(uids))
	for _, uid := range uids {
		there[uid] = struct{}{}
		if _, known := w.told[uid]; !known || again {
			w.follow(uid)
		} else {
			w.look(uid)
		}
	}
	for uid := range w.told {
		if _, ok := there[uid]; !ok && err == nil {
			w.forget(uid)
		}
	}
	w.nextRound()
}

// tryAgain connects where there is no connection, and reports whether every pod is to
// be listened to anew.
func (w *signWatch) tryAgain() bool {
	w.wasDeaf, w.deaf = w.deaf, false
	if w.inotify != nil {
		return w.wasDeaf
	}
	inotify, err := w.connect()
	if err != nil {
		w.cannotListen(err)
		return false
	}
	w.inotify = inotify
	return true
}

// cannotListen tells of the first failure only; the next ones are likely to be the same.
func (w *signWatch) cannotListen(err error) {
	if !w.deaf && !w.wasDeaf {
		w.logger.Warn("the kernel does not notify of pods' signs; all are looked at every so often instead",
			"every", w.pollDeaf, "error", err)
	}
	w.deaf = true
}

func (w *signWatch) nextRound() {
	switch {
	case w.deaf:
		w.round.Reset(w.pollDeaf)
		return
	case w.wasDeaf:
		w.logger.Info("the kernel notifies of pods' signs again")
	}
	w.wasDeaf = false
	w.round.Reset(w.poll)
}

// follow listens to a pod's files, which may be others than before. Signs has seen
// that they are what Create makes, and no links.
func (w *signWatch) follow(uid string) {
	w.forget(uid)
	if _, err := w.dirs.Touched(uid); err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			w.logger.Warn("a pod's signs cannot be read", "error", err)
		}
		return
	}
	w.told[uid] = time.Time{}
	for _, file := range w.files(uid) {
		w.listen(file)
	}
	w.look(uid)
}

func (w *signWatch) forget(uid string) {
	for _, file := range w.files(uid) {
		w.unlisten(file)
		delete(w.paused, file)
	}
	delete(w.told, uid)
}

func (w *signWatch) files(uid string) []string {
	dir := w.dirs.Dir(uid)
	return []string{dir.Heartbeat, dir.Stop}
}

func (w *signWatch) listen(file string) {
	if w.inotify == nil {
		return
	}
	if err := w.inotify.Add(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.cannotListen(err)
		w.round.Reset(w.pollDeaf)
	}
}

func (w *signWatch) unlisten(file string) {
	if w.inotify != nil {
		w.inotify.Remove(file) //nolint:errcheck // the kernel drops the watch of a deleted file by itself
	}
}

// look tells of a pod that has something new to tell, or a request that stands: an
// answer and the next request can have the same time, by the kernel's coarse clock.
func (w *signWatch) look(uid string) {
	told, there := w.told[uid]
	if !there {
		return
	}
	signs, err := w.dirs.Touched(uid)
	if err != nil {
		return // it is gone, or Create mends it: both are told
	}
	if signs.StopRequested || !signs.Heartbeat.Equal(told) {
		w.told[uid] = signs.Heartbeat
		w.changed(uid)
	}
}
