package cli

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

// errWatchEnded is the end of a watch by the API server.
var errWatchEnded = errors.New("the API server ended the watch: run the command again")

// watchPause is the least time between two reads with -w. In a large cluster some node changes all
// the time.
const watchPause = 2 * time.Second

// watchView writes the launchers, and again each one that changes, until ctx ends.
func (p *Program) watchView(ctx context.Context, c *cluster,
	read func(context.Context) (*view, error), output *outputFlags,
	write func(*view, *outputFlags) error) error {
	changed, end, err := p.changes(ctx, c)
	if err != nil {
		return err
	}
	defer end()
	seen := map[string]string{}
	for ctx.Err() == nil {
		v, err := read(ctx)
		if err != nil {
			return unlessDone(ctx, err)
		}
		first := len(seen) == 0
		v.keepChanged(seen)
		if len(v.launchers) > 0 || first {
			if err := write(v, output); err != nil {
				return err
			}
			output.noHeaders = output.noHeaders || len(v.launchers) > 0
		}
		select {
		case <-ctx.Done():
		case _, ok := <-changed:
			if !ok && ctx.Err() == nil {
				return errWatchEnded
			}
		}
		sleep(ctx, watchPause)
	}
	return nil
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// unlessDone returns nil after the end of ctx, as for an interrupt.
func unlessDone(ctx context.Context, err error) error {
	select {
	case <-ctx.Done():
		return nil
	default:
		return err
	}
}

// keepChanged keeps the launchers that differ from seen, and enters them there. A note comes once: its
// text before the colon names the subject, and the rest may have an age.
func (v *view) keepChanged(seen map[string]string) {
	kept := []nodeLauncher{}
	for _, l := range v.launchers {
		key := l.Node + "/" + l.Pod.UID + "/" + l.Container.Name
		text, err := json.Marshal(l)
		if err != nil || seen[key] != string(text) {
			seen[key] = string(text)
			kept = append(kept, l)
		}
	}
	v.launchers = kept
	notes := v.notes[:0]
	for _, note := range v.notes {
		subject, _, _ := strings.Cut(note, ":")
		if key := "note " + subject; seen[key] == "" {
			seen[key] = note
			notes = append(notes, note)
		}
	}
	v.notes = notes
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
