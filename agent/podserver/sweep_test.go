package podserver_test

import (
	"context"
	"io/fs"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mooring-vm/mooring/agent/podserver"
	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/lifecycle/poddir"
)

// fewDirs are pod directories without sockets. Follow reports deleted ones once.
type fewDirs struct {
	podserver.Dirs
	there map[string]bool
	went  []string
}

func (d fewDirs) Follow(ctx context.Context, changed func(uid string)) error {
	for _, uid := range slices.Concat(slices.Collect(maps.Keys(d.there)), d.went) {
		changed(uid)
	}
	<-ctx.Done()
	return nil
}

func (d fewDirs) ID(uid string) (poddir.ID, error) {
	if d.there[uid] {
		return poddir.ID{}, fs.ErrPermission
	}
	return poddir.ID{}, fs.ErrNotExist
}

// The server deletes the records of deleted pods and keeps the others. Pods "a" and "b" have a
// launcher.
func TestSweep(t *testing.T) {
	for name, test := range map[string]struct {
		dirs   fewDirs
		ready  bool
		stored []string // before; "d" is added later
		left   []string
	}{
		"gone while the agent was away": {fewDirs{}, true, []string{"a", "c"}, []string{"a"}},
		"not known yet": {fewDirs{}, false, []string{"a", "c"},
			[]string{"a", "c", "d"}},
		"a directory and no launcher": {fewDirs{there: map[string]bool{"c": true, "d": true}}, true,
			[]string{"b", "c"}, []string{"b", "c", "d"}},
		"it never had a socket": {fewDirs{went: []string{"c"}}, false, []string{"a", "c"},
			[]string{"a", "d"}},
		"its directory is to be made": {fewDirs{went: []string{"a"}}, true, []string{"a", "c"},
			[]string{"a"}},
		"asked in its last moment": {fewDirs{went: []string{"d"}}, true, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				r.Ready = func() bool { return test.ready }
				asked := podserver.Record{Size: api.Size{VCPUs: 4}}
				for _, uid := range test.stored {
					must(t, r.Store.Put(uid, asked))
				}
				stop := r.follow(t, test.dirs)
				synctest.Wait()
				must(t, r.Store.Put("d", asked))
				<-time.After(time.Minute)
				stop()
				if left := slices.Sorted(slices.Values(r.Store.UIDs())); !slices.Equal(left,
					test.left) {
					t.Errorf("records of %v, want of %v", left, test.left)
				}
			})
		})
	}
}

// follow runs a server on these directories until the caller stops it.
func (r *rig) follow(t *testing.T, dirs podserver.Dirs) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	server := &podserver.Server{Dirs: dirs, Pods: r, Logger: slog.New(slog.DiscardHandler)}
	go func() { done <- server.Run(ctx) }()
	return func() {
		cancel()
		must(t, <-done)
	}
}

// The sweep waits until the agent knows all launchers.
func TestSweepOnceReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		var ready atomic.Bool
		r.Ready = ready.Load
		must(t, r.Store.Put("c", podserver.Record{Size: api.Size{VCPUs: 4}}))
		defer r.follow(t, fewDirs{})()
		<-time.After(time.Minute)
		if !slices.Contains(r.Store.UIDs(), "c") {
			t.Error("the record is deleted although its launcher may run")
		}
		ready.Store(true)
		<-time.After(time.Minute)
		if slices.Contains(r.Store.UIDs(), "c") {
			t.Error("the record is still there")
		}
	})
}

// The agent drops a pod only when both its launcher and its directory are gone.
func TestSweepKnown(t *testing.T) {
	r := newRig(t)
	before := r.Pod("a")
	r.Sweep(func(string) bool { return true })
	if r.Pod("a") != before {
		t.Error("a pod with a launcher is dropped")
	}
	r.remove("a")
	r.Sweep(func(string) bool { return false })
	if r.Pod("a") != before {
		t.Error("a pod with a directory is dropped")
	}
	r.Sweep(func(string) bool { return true })
	if r.Pod("a") == before {
		t.Error("a deleted pod is not dropped")
	}
}
