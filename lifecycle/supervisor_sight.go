package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// argumentsTimeout is how long a process's command line may take to read.
const argumentsTimeout = time.Second

// sighted takes what the tracker tells.
func (s *Supervisor) sighted(ctx context.Context, seen Sighting) {
	if seen.Ended {
		for _, t := range s.ties { // each has few processes
			s.ended(t, seen.Process, seen.How)
		}
		return
	}
	if t := s.byGroup[seen.Group]; t != nil {
		s.introduce(ctx, t, seen.Tracked)
		return
	}
	s.lookAtDomains(ctx) // libvirt may have started it for a launcher
}

// ended takes the end of a process that a tie holds on to.
func (s *Supervisor) ended(t *tied, p Process, how string) {
	if t.vm(p) != nil {
		s.step(t, VMEnded{Process: p, How: how})
	}
	if t.Owner != nil && t.Owner.is(p) && t.OwnerGone == "" && s.current(t) {
		proof := fmt.Sprintf("its first process, %d, has ended", p.PID)
		if how != "" {
			proof += ": " + how
		}
		s.step(t, OwnerEnded{Proof: proof})
	}
	if h := t.handles[p.name()]; h != nil && s.current(t) {
		delete(t.handles, p.name())
		s.close(h)
	}
}

// introduce gets hold of a process that runs an emulator, unless that is a probe of
// libvirt's: it starts emulators without a machine, to ask them what they can do.
func (s *Supervisor) introduce(ctx context.Context, t *tied, p Tracked) {
	if t.vm(p.Process) != nil || t.coming[p.name()] || len(t.VMs)+len(t.coming) >= maxVMs {
		return
	}
	t.coming[p.name()] = true
	s.aside(ctx, func(ctx context.Context) func(context.Context) {
		args, err := s.arguments(ctx, p.Process)
		return func(context.Context) {
			delete(t.coming, p.name())
			if withoutMachine(args) || errors.Is(err, ErrGone) {
				return
			}
			if err != nil {
				s.log(&t.Tie).Warn("taken for a VM, as its command line cannot be read", "pid", p.PID, "error", err)
			}
			s.enter(t, VM{Process: p.Process, Executable: p.Executable})
		}
	})
}

// arguments reads a command line, and does not wait for ever.
func (s *Supervisor) arguments(ctx context.Context, p Process) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, argumentsTimeout)
	defer cancel()
	type answer struct {
		args []string
		err  error
	}
	read := make(chan answer, 1)
	go func() {
		args, err := s.Processes.Arguments(p)
		read <- answer{args, err}
	}()
	select {
	case a := <-read:
		return a.args, a.err
	case <-ctx.Done():
		return nil, fmt.Errorf("read the command line of process %d: %w", p.PID, ctx.Err())
	}
}

// withoutMachine reports whether QEMU is told to emulate no machine. What says so
// runs no VM, whoever says it.
func withoutMachine(args []string) bool {
	for i, arg := range args {
		if i+1 < len(args) && slices.Contains([]string{"-machine", "--machine", "-M", "--M"}, arg) {
			kind, _, _ := strings.Cut(args[i+1], ",")
			if strings.TrimPrefix(kind, "type=") == "none" {
				return true
			}
		}
	}
	return false
}

// aside does what may take its time in a goroutine of its own, and then what it
// returns in that of Run.
func (s *Supervisor) aside(ctx context.Context, work func(context.Context) func(context.Context)) {
	s.slow.Go(func() {
		if then := work(ctx); then != nil && ctx.Err() == nil {
			s.put(then)
		}
	})
}
