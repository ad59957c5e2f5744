package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

// living is the number of processes kept alive in a storm. All other processes end at once.
const living = 20

// order is a request to a forker.
type order struct {
	Count int           `json:"count"` // number of processes, or
	For   time.Duration `json:"for"`   // duration, in which case
	Stays string        `json:"stays"` // some processes execute this program and live for a while
}

// forked is the result of an order.
type forked struct {
	Started int           `json:"started"`
	Took    time.Duration `json:"took"`
	Living  []int         `json:"living"` // pids
}

// forker is a process that starts other processes, one at a time. Each executes a small program
// that ends at once.
type forker struct {
	cmd     *exec.Cmd
	orders  io.Closer
	encoder *json.Encoder
	decoder *json.Decoder
}

// startForker starts a forker in a cgroup.
func startForker(ctx context.Context, in cgroup) (*forker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	f := &forker{cmd: exec.CommandContext(ctx, self, "forker")}
	f.cmd.Stderr = os.Stderr
	input, err := f.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := f.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	f.orders, f.encoder, f.decoder = input, json.NewEncoder(input), json.NewDecoder(output)
	if err := in.start(f.cmd); err != nil {
		return nil, fmt.Errorf("starting a forker: %w", err)
	}
	return f, nil
}

func (f *forker) pid() int { return f.cmd.Process.Pid }

// do sends an order and returns the result.
func (f *forker) do(o order) (done forked, err error) {
	if err := f.encoder.Encode(o); err != nil {
		return done, fmt.Errorf("sending an order to a forker: %w", err)
	}
	if err := f.decoder.Decode(&done); err != nil {
		return done, fmt.Errorf("reading the result of a forker: %w", err)
	}
	return done, nil
}

// stop ends the forker and its living processes.
func (f *forker) stop() error { return errors.Join(f.orders.Close(), f.cmd.Wait()) }

// forkerCommand executes orders until the end of its input.
func forkerCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "forker",
		Short:  "Start processes by JSON orders from the input",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(*cobra.Command, []string) error {
			return fork(os.Stdin, os.Stdout)
		},
	}
}

func fork(in io.Reader, out io.Writer) error {
	program, err := exec.LookPath("true")
	if err != nil {
		return err
	}
	s := forkerState{program: program}
	defer func() { s.endAll() }()
	for decoder, encoder := json.NewDecoder(in), json.NewEncoder(out); ; {
		var o order
		if err := decoder.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		done, err := s.carryOut(o)
		if err != nil {
			return err
		}
		if err := encoder.Encode(done); err != nil {
			return err
		}
	}
}

// forkerState is the state in the forker process.
type forkerState struct {
	program string
	alive   []int // oldest first
}

func (s *forkerState) carryOut(o order) (forked, error) {
	began, done := time.Now(), forked{}
	for ; done.Started < o.Count || time.Since(began) < o.For; done.Started++ {
		var err error
		if o.Stays != "" && done.Started%living == 0 {
			err = s.replaceOldest(o.Stays)
		} else {
			err = s.runOne()
		}
		if err != nil {
			return done, err
		}
	}
	done.Took, done.Living = time.Since(began), s.alive
	return done, nil
}

func (s *forkerState) runOne() error {
	pid, err := syscall.ForkExec(s.program, []string{s.program}, &syscall.ProcAttr{})
	if err != nil {
		return err
	}
	return reap(pid)
}

// replaceOldest starts a living process, and ends the oldest one above the limit.
func (s *forkerState) replaceOldest(program string) error {
	pid, err := syscall.ForkExec(program, []string{program, "1000000"}, &syscall.ProcAttr{})
	if err != nil {
		return err
	}
	s.alive = append(s.alive, pid)
	if len(s.alive) <= living {
		return nil
	}
	oldest := s.alive[0]
	s.alive = s.alive[1:]
	return end(oldest)
}

func (s *forkerState) endAll() {
	for _, pid := range s.alive {
		_ = end(pid) // errors were reported before
	}
}

func end(pid int) error {
	return errors.Join(syscall.Kill(pid, syscall.SIGKILL), reap(pid))
}

// reap waits for a child and ignores its exit status.
func reap(pid int) error {
	var status syscall.WaitStatus
	for {
		if _, err := syscall.Wait4(pid, &status, 0, nil); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}
