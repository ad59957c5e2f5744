package agent

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

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
	f, err := j.open(os.O_WRONLY | os.O_APPEND | os.O_CREATE)
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

func (j *journal) open(flags int) (*os.File, error) {
	f, err := os.OpenFile(j.path, flags|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("journal of the fence: %w", err)
	}
	return f, nil
}

// empty returns the events that were kept, and forgets them. What is no event is left
// out, and told in the error.
func (j *journal) empty() ([]agentapi.Event, error) {
	f, err := j.open(os.O_RDWR)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	content, err := io.ReadAll(io.LimitReader(f, maxJournal))
	if err == nil {
		err = f.Truncate(0)
	}
	events, broken := parseJournal(content)
	return events, errors.Join(err, broken)
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
