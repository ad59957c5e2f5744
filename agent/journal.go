package agent

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/lifecycle/registry"
)

const (
	// journalFile holds the fence's events for the next agent: one a line, as JSON. The fence
	// itself has no connection to Kubernetes.
	journalFile = "fence.jsonl"

	// maxJournal bounds the file, in bytes. Events beyond it are only in the fence's log.
	maxJournal = 256 << 10

	byFence = " (reported by the fence, while no agent ran)"
)

// journal keeps events of the fence for the next agent. It is safe for concurrent use.
type journal struct {
	path   string
	logger *slog.Logger
	once   sync.Once
}

var _ registry.Recorder = (*journal)(nil)

func newJournal(root string, logger *slog.Logger) *journal {
	return &journal{path: filepath.Join(root, journalFile), logger: logger}
}

// Record implements [registry.Recorder].
func (j *journal) Record(event agentapi.Event) {
	if err := j.add(event); err != nil {
		j.once.Do(func() {
			j.logger.Warn("the next agent will miss events of the fence", "error", err)
		})
	}
}

func (j *journal) add(event agentapi.Event) error {
	line, err := json.Marshal(event)
	if err != nil {
		return fmt.Errorf("journal of the fence: %w", err)
	}
	line = append(line, '\n')
	f, err := j.open()
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && info.Size()+int64(len(line)) > maxJournal {
		return fmt.Errorf("journal of the fence: %s is full", j.path)
	}
	if err == nil {
		_, err = f.Write(line)
	}
	return err
}

// open opens and locks the file for appending. The agent that takes the file away waits for the
// lock.
func (j *journal) open() (*os.File, error) {
	for {
		f, err := openJournal(j.path, os.O_RDWR|os.O_APPEND|os.O_CREATE)
		if err != nil {
			return nil, err
		}
		if err := lock(f); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		opened, err := f.Stat()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if current, err := os.Stat(j.path); err == nil && os.SameFile(current, opened) {
			return f, nil
		}
		f.Close() // an agent took the file away before the lock, and may have read it
	}
}

func openJournal(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, flags|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("journal of the fence: %w", err)
	}
	return f, nil
}

// drain returns the events and removes them from the journal. It skips broken lines, and counts
// them in the error. It renames the file before it reads it: later events go to a new file, for the
// next call.
func (j *journal) drain() ([]agentapi.Event, error) {
	taken := j.path + ".taken"
	earlier, broken := consume(taken) // from an agent that ended before it had read the file
	err := os.Rename(j.path, taken)
	if errors.Is(err, fs.ErrNotExist) {
		return earlier, broken
	}
	if err != nil {
		return earlier, errors.Join(broken, fmt.Errorf("journal of the fence: %w", err))
	}
	awaitUnlocked(taken)
	latest, err := consume(taken)
	return append(earlier, latest...), errors.Join(broken, err)
}

// awaitUnlocked waits at most a second for a fence that still appends to the file. The last event
// of a fence that hangs is lost.
func awaitUnlocked(path string) {
	free := func(context.Context) (bool, error) {
		held, err := lockHeld(path)
		return !held, err
	}
	_ = wait.PollUntilContextTimeout(context.Background(), time.Millisecond,
		time.Second, true, free)
}

// consume reads a journal and removes it, even with broken lines.
func consume(path string) ([]agentapi.Event, error) {
	f, err := openJournal(path, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxJournal))
	if err != nil {
		return nil, fmt.Errorf("journal of the fence: %w", err)
	}
	events, broken := parseJournal(content)
	return events, errors.Join(broken, os.Remove(path))
}

func parseJournal(content []byte) (events []agentapi.Event, err error) {
	broken := 0
	lines := bufio.NewScanner(bytes.NewReader(content))
	lines.Buffer(nil, maxJournal)
	for lines.Scan() {
		var event agentapi.Event
		if json.Unmarshal(lines.Bytes(), &event) != nil {
			broken++
			continue
		}
		events = append(events, event)
	}
	if broken > 0 {
		err = fmt.Errorf("journal of the fence: %d lines are not events", broken)
	}
	return events, errors.Join(err, lines.Err())
}

// replayJournal reports the events of the fence as events of this agent.
func (a *Agent) replayJournal() {
	events, err := newJournal(a.config.Root, a.logger).drain()
	if err != nil {
		a.logger.Warn("some events of the fence are lost", "error", err)
	}
	for _, event := range events {
		event.Message += byFence
		a.recorders().Record(event)
	}
}
