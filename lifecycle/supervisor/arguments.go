package supervisor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mooring-vm/mooring/lifecycle/host"
)

const (
	// argumentsTimeout is how long a process's command line may take to read.
	argumentsTimeout = time.Second

	// maxReads bounds the command lines that are being read of one launcher, or of
	// one domain. A process can keep who reads its own waiting.
	maxReads = 4
)

var (
	// errReadTimeout says that a command line was not read in time.
	errReadTimeout = errors.New("its command line cannot be read in time")

	// errNotReadYet says that nobody has tried for long enough yet. It is to be asked again.
	errNotReadYet = errors.New("its command line was not read yet")
)

// argumentsReader is whose processes are read: a launcher, by its group or the ID of its
// container, or a domain. None takes another's turn.
type argumentsReader struct {
	group             uint64
	container, domain string
}

// argumentsRead is a command line that is being read, once for all who want it.
type argumentsRead struct {
	reader argumentsReader
	done   chan struct{} // closed when args and err are there
	late   chan struct{} // closed when it takes too long

	args []string
	err  error
}

// startRead begins to read a command line, unless somebody does so already. It returns nil
// where too many are being read for that reader.
func (s *Supervisor) startRead(p host.Process, of argumentsReader) *argumentsRead {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.reads[p.ID()]; r != nil {
		return r
	}
	others := 0
	for _, r := range s.reads {
		if r.reader == of {
			others++
		}
	}
	if others >= maxReads {
		return nil
	}
	r := &argumentsRead{reader: of, done: make(chan struct{}), late: make(chan struct{})}
	s.reads[p.ID()] = r
	timeout := time.AfterFunc(argumentsTimeout, func() { close(r.late) })
	go func() {
		defer close(r.done)
		r.args, r.err = s.Processes.Arguments(p)
		timeout.Stop()
		s.finishRead(p)
	}()
	return r
}

func (s *Supervisor) finishRead(p host.Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.reads, p.ID())
}

// await returns the command line of a process that is being read. The error wraps
// errBusy where that was not begun, or whoever asks has no more time, and errUnread
// where the process itself takes too long.
func (r *argumentsRead) await(ctx context.Context, p host.Process) ([]string, error) {
	if r == nil {
		return nil, fmt.Errorf("process %d: %w", p.PID, errNotReadYet)
	}
	select {
	case <-r.done:
		return r.args, r.err
	default:
	}
	select {
	case <-r.done:
		return r.args, r.err
	case <-r.late:
		return nil, fmt.Errorf("process %d: %w", p.PID, errReadTimeout)
	case <-ctx.Done():
		return nil, fmt.Errorf("process %d: %w", p.PID, errNotReadYet)
	}
}

// readArguments reads a command line, and does not wait for ever.
func (s *Supervisor) readArguments(ctx context.Context, p host.Process, of argumentsReader) ([]string, error) {
	return s.startRead(p, of).await(ctx, p)
}
