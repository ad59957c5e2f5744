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
	"github.com/mooring-vm/mooring/lifecycle"
)

const (
	// journalFile is where the fence, which talks to nobody, leaves its events for
	// the agent: one a line, as JSON.
	journalFile = "fence.jsonl"

	// maxJournal bounds the file, in bytes. What does not fit is lost to all but
	// the fence's log.
	maxJournal = 256 << 10

	byFence = " (told by the fence, while no agent ran)"
)

// journal keeps events for the next agent. It may be used from several goroutines at
// once.
type journal struct {
	path   string
	logger *slog.Logger
	once   sync.Once
}

var _ lifecycle.Recorder = (*journal)(nil)

func newJournal(root string, logger *slog.Logger) *journal {
	return &journal{path: filepath.Join(root, journalFile), logger: logger}
}

// Record implements [lifecycle.Recorder].
func (j *journal) Record(event agentapi.Event) {
	if err := j.add(event); err != nil {
		j.once.Do(func() { j.logger.Warn("the next agent will not know of all that the fence does", "error", err) })
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

// open opens the file to add to it. It is locked, for whoever takes it away to wait.
func (j *journal) open() (*os.File, error) {
	for {
		f, err := openJournal(j.path, os.O_RDWR|os.O_APPEND|os.O_CREATE)
		if err != nil {
			return nil, err
		}
		if err := lock(f); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		mine, err := f.Stat()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if there, err := os.Stat(j.path); err == nil && os.SameFile(there, mine) {
			return f, nil
		}
		f.Close() // it was taken away before it was locked, and may have been read
	}
}

func openJournal(path string, flags int) (*os.File, error) {
	f, err := os.OpenFile(path, flags|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("journal of the fence: %w", err)
	}
	return f, nil
}

// empty returns the events that were kept, and forgets them. What is no event is left
// out, and told in the error. The file is taken away before it is read, so that what
// comes meanwhile is in another, for the next time.
func (j *journal) empty() ([]agentapi.Event, error) {
	taken := j.path + ".taken"
	earlier, broken := consume(taken) // by an agent that ended before it has read it
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

// awaitUnlocked waits for a fence that is adding to the file. It is about to step aside,
// or hangs: then what it adds last is lost.
func awaitUnlocked(path string) {
	free := func(context.Context) (bool, error) {
		held, err := lockHeld(path)
		return !held, err
	}
	_ = wait.PollUntilContextTimeout(context.Background(), time.Millisecond, time.Second, true, free)
}

// consume reads a journal and removes it, also where some lines are no events.
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
		err = fmt.Errorf("journal of the fence: %d lines are no events", broken)
	}
	return events, errors.Join(err, lines.Err())
}

// replayFence tells what the fence did while no agent ran.
func (a *Agent) replayFence() {
	events, err := newJournal(a.config.Root, a.logger).empty()
	if err != nil {
		a.logger.Warn("not all is known of what the fence did", "error", err)
	}
	for _, event := range events {
		event.Message += byFence
		a.recorder().Record(event)
	}
}
