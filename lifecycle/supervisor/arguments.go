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

	// maxReading bounds the command lines that are being read of one launcher, or of
	// one domain. A process can keep who reads its own waiting.
	maxReading = 4
)

var (
	// errUnread says that a command line was not read in time.
	errUnread = errors.New("its command line cannot be read in time")

	// errBusy says that nobody has tried for long enough yet. It is to be asked again.
	errBusy = errors.New("its command line was not read yet")
)

// reader is whose processes are read: a launcher, by its group or the ID of its
// container, or a domain. None takes another's turn.
type reader struct {
	group             uint64
	container, domain string
}

// reading is a command line that is being read, once for all who want it.
type reading struct {
	of   reader
	done chan struct{} // closed when args and err are there
	late chan struct{} // closed when it takes too long

	args []string
	err  error
}

// read begins to read a command line, unless somebody does so already. It returns nil
// where too many are being read for that reader.
func (s *Supervisor) read(p host.Process, of reader) *reading {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r := s.reading[p.ID()]; r != nil {
		return r
	}
	others := 0
	for _, r := range s.reading {
		if r.of == of {
			others++
		}
	}
	if others >= maxReading {
		return nil
	}
	r := &reading{of: of, done: make(chan struct{}), late: make(chan struct{})}
	s.reading[p.ID()] = r
	timeout := time.AfterFunc(argumentsTimeout, func() { close(r.late) })
	go func() {
		defer close(r.done)
		r.args, r.err = s.Processes.Arguments(p)
		timeout.Stop()
		s.endReading(p)
	}()
	return r
}

func (s *Supervisor) endReading(p host.Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.reading, p.ID())
}

// await returns the command line of a process that is being read. The error wraps
// errBusy where that was not begun, or whoever asks has no more time, and errUnread
// where the process itself takes too long.
func (r *reading) await(ctx context.Context, p host.Process) ([]string, error) {
	if r == nil {
		return nil, fmt.Errorf("process %d: %w", p.PID, errBusy)
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
		return nil, fmt.Errorf("process %d: %w", p.PID, errUnread)
	case <-ctx.Done():
		return nil, fmt.Errorf("process %d: %w", p.PID, errBusy)
	}
}

// arguments reads a command line, and does not wait for ever.
func (s *Supervisor) arguments(ctx context.Context, p host.Process, of reader) ([]string, error) {
	return s.read(p, of).await(ctx, p)
}
