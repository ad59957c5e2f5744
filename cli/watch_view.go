package cli

import (
	"context"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// watchPeriod is the longest time between two reads with -w. A node that falls silent writes no
// state, so no watch reports it.
const watchPeriod = time.Minute

// viewWriter writes the launchers of a view in the form of one command.
type viewWriter func(*Program, *view, *outputFlags) error

// viewWatch writes the launchers of a view, and again each one that changes.
type viewWatch struct {
	*Program
	read   func(context.Context) (*view, error)
	open   func(context.Context) (changed <-chan struct{}, end func(), err error)
	write  viewWriter
	output *outputFlags

	started time.Time           // ages of compared rows refer to this time
	rows    map[string]shownRow // of listed launchers
	notes   map[string]bool     // subjects of the present notes
	written bool                // the first list was written
}

// shownRow is a launcher in the output.
type shownRow struct {
	name string
	text string // without ages
}

// run writes launchers until ctx ends. It retries after failures. It returns an error before the
// first list, and a permanent error at any time.
func (w *viewWatch) run(ctx context.Context) error {
	var o outage
	for {
		err := w.follow(ctx, &o)
		if err != nil && !w.written {
			return unlessDone(ctx, err)
		}
		if err := w.retry(ctx, &o, err); err != nil || ctx.Err() != nil {
			return unlessDone(ctx, err)
		}
	}
}

// follow opens a watch and writes launchers until the watch ends.
func (w *viewWatch) follow(ctx context.Context, o *outage) error {
	changed, end, err := w.open(ctx)
	if err != nil {
		return err
	}
	defer end()
	for {
		v, err := w.read(ctx)
		if err != nil {
			return err
		}
		o.end()
		if err := w.show(v); err != nil {
			return &outputError{err}
		}
		select {
		case <-ctx.Done():
			return nil
		case _, ok := <-changed:
			if !ok {
				return nil
			}
		case <-time.After(watchPeriod):
		}
		sleep(ctx, watchPause)
	}
}

// show writes the changes since the last view, or the whole first view.
func (w *viewWatch) show(v *view) error {
	gone, err := w.keepChanged(v)
	if err != nil {
		return err
	}
	if len(v.launchers) > 0 || !w.written {
		if err := w.write(w.Program, v, w.output); err != nil {
			return err
		}
	} else {
		w.writeNotes(v.notes)
	}
	w.written = true
	w.output.noHeaders = w.output.noHeaders || len(v.launchers) > 0
	for _, name := range gone {
		w.writeNotes([]string{"no longer listed: " + name})
	}
	return nil
}

// keepChanged keeps the launchers and notes with new output. It returns the names of launchers that
// have left the list.
func (w *viewWatch) keepChanged(v *view) (gone []string, err error) {
	rows, kept := map[string]shownRow{}, []nodeLauncher{}
	listed := map[string]bool{}
	for _, l := range v.launchers {
		row := shownRow{name: l.Pod.Namespace + "/" + l.Pod.Name + "/" + l.Container.Name}
		if l.Node != "" {
			row.name += " on node " + l.Node
		}
		if row.text, err = w.text(v, l); err != nil {
			return nil, err
		}
		if row.text == "" {
			continue // the command does not show it
		}
		key := l.Node + "/" + l.Pod.UID + "/" + l.Container.Name + "/" + l.Container.ID
		if w.rows[key].text != row.text {
			kept = append(kept, l)
		}
		rows[key], listed[row.name] = row, true
	}
	for _, key := range slices.Sorted(maps.Keys(w.rows)) {
		if name := w.rows[key].name; !listed[name] {
			listed[name] = true // once for all launchers of this name
			gone = append(gone, name)
		}
	}
	v.launchers, w.rows = kept, rows
	w.keepNewNotes(v)
	return gone, nil
}

// keepNewNotes keeps the notes with a new subject: the text before the colon. The rest may have an
// age.
func (w *viewWatch) keepNewNotes(v *view) {
	present, kept := map[string]bool{}, []string{}
	for _, note := range v.notes {
		subject, _, _ := strings.Cut(note, ":")
		if !w.notes[subject] {
			kept = append(kept, note)
		}
		present[subject] = true
	}
	v.notes, w.notes = kept, present
}

// text returns a launcher as the command writes it, with the same ages at all times.
func (w *viewWatch) text(v *view, l nodeLauncher) (string, error) {
	if l.Heartbeat != nil && l.Heartbeat.Age != nil {
		heartbeat := *l.Heartbeat
		heartbeat.Age = new(float64)
		l.Heartbeat = &heartbeat
	}
	var out strings.Builder
	p, flags := *w.Program, *w.output
	p.Out, p.ErrOut, p.Now = &out, io.Discard, func() time.Time { return w.started }
	flags.noHeaders = true
	one := &view{launchers: []nodeLauncher{l}, inCluster: v.inCluster}
	err := w.write(&p, one, &flags)
	return out.String(), err
}

// changes returns a channel with a value for each possible change, and a function that ends it. The
// cluster closes the channel at the end of its watch.
func (p *Program) changes(ctx context.Context, c *cluster) (<-chan struct{}, func(), error) {
	if c == nil {
		ticker := time.NewTicker(watchPause)
		return relay(ctx, ticker.C, func(time.Time) bool { return true }), ticker.Stop, nil
	}
	reader, err := p.fleetReader(c)
	if err != nil {
		return nil, nil, err
	}
	w, err := reader.states.Get().Resource(nodeStates).VersionedParams(
		&metav1.ListOptions{Watch: true}, metav1.ParameterCodec).Watch(ctx)
	if err != nil {
		return nil, nil, clusterError(err, "watch", nodeStates, "follow the states of nodes")
	}
	isChange := func(event watch.Event) bool { return event.Type != watch.Bookmark }
	return relay(ctx, w.ResultChan(), isChange), w.Stop, nil
}

// relay passes on that from has values, at most one at a time. It ends with ctx, or with from.
func relay[T any](ctx context.Context, from <-chan T, counts func(T) bool) <-chan struct{} {
	to := make(chan struct{}, 1)
	go func() {
		defer close(to)
		for {
			select {
			case <-ctx.Done():
				return
			case value, ok := <-from:
				if !ok {
					return
				}
				if !counts(value) {
					continue
				}
				select {
				case to <- struct{}{}:
				default: // one is waiting
				}
			}
		}
	}()
	return to
}
