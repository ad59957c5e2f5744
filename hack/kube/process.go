package kube

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"syscall"

	"github.com/mooring-vm/mooring/hack/throwaway/child"
)

// Process is a program that runs beside a control plane. Its methods are safe for
// concurrent use.
type Process struct {
	name   string
	pid    int
	cancel context.CancelFunc
	done   chan struct{} // closed after err is set
	err    error
	stop   sync.Once
}

// Start starts a program whose log is kept as the control plane's own are, in
// name.log. The program ends with Stop of either, and at the latest with this
// process, whatever ends it.
func (c *ControlPlane) Start(name, path string, args ...string) (*Process, error) {
	log, err := c.log(name + ".log")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := child.Command(ctx, path, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = c.temp.Dir
	exited, err := child.Start(cmd, syscall.SIGKILL)
	if err != nil {
		cancel()
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	p := &Process{name: name, pid: cmd.Process.Pid, cancel: cancel, done: make(chan struct{})}
	go func() {
		p.err = <-exited
		close(p.done)
	}()
	c.beside = append(c.beside, p)
	return p, nil
}

// Pid is that of the program.
func (p *Process) Pid() int { return p.pid }

// Exited is closed when the program has ended, for whatever reason.
func (p *Process) Exited() <-chan struct{} { return p.done }

// Stop ends the program, which has 20 seconds to do so in good order, and returns
// when it is gone. That it had ended by itself is an error, told once.
func (p *Process) Stop() (err error) {
	p.stop.Do(func() {
		select {
		case <-p.done:
			err = fmt.Errorf("%s had ended: %w", p.name, exit(p.err))
		default:
		}
		p.cancel()
		<-p.done
	})
	<-p.done
	return err
}

func exit(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

// File is the path of a file in the control plane's temporary folder, which is
// gone after Stop.
func (c *ControlPlane) File(name string) string { return filepath.Join(c.temp.Dir, name) }
