package supervisor

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/mooring-vm/mooring/lifecycle/host"
)

const (
	// argumentsTimeout bounds the reading of one command line.
	argumentsTimeout = time.Second

	// maxReads bounds the concurrent reads for one launcher or domain. A process can block the
	// reading of its own command line.
	maxReads = 4
)

var (
	// errReadTimeout means that the process has blocked its reader for argumentsTimeout.
	errReadTimeout = errors.New("timeout while reading its command line")

	// errNotReadYet means that the read has not begun or not had its full time. The caller retries.
	errNotReadYet = errors.New("its command line was not read yet")
)

// argumentsReader identifies a launcher, by group or container ID, or a domain. Each has its own
// limit of reads.
type argumentsReader struct {
	group             uint64
	container, domain string
}

// argumentsRead is the reading of a command line in progress.
type argumentsRead struct {
	reader argumentsReader
	done   chan struct{} // closed when args and err are set
	late   chan struct{} // closed after argumentsTimeout

	args []string
	err  error
}

// startRead starts the reading of a command line, or joins one in progress. It returns nil if the
// reader is at its limit.
func (s *Supervisor) startRead(p host.Process, of argumentsReader) *argumentsRead {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.reads[p.ID()]; r != nil {
		return r
	}
	count := 0
	for _, r := range s.reads {
		if r.reader == of {
			count++
		}
	}
	if count >= maxReads {
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

// await returns the command line. The error wraps errNotReadYet for a nil read and at the end of
// ctx, and errReadTimeout if the process blocks its reader.
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

// readArguments reads a command line in bounded time.
func (s *Supervisor) readArguments(
	ctx context.Context, p host.Process, of argumentsReader,
) ([]string, error) {
	return s.startRead(p, of).await(ctx, p)
}
