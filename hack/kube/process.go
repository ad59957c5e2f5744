package kube

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"github.com/mooring-vm/mooring/hack/throwaway/child"
)

// Process is a program that runs with a control plane. Its methods are safe for concurrent use.
type Process struct {
	name   string
	log    string // path
	pid    int
	cancel context.CancelFunc
	done   chan struct{} // closed after err is set
	err    error
	stop   sync.Once
}

// Start starts a program with a log in name.log beside the control plane's logs. The program ends
// with Process.Stop, with ControlPlane.Stop, and at the latest with this process, however that
// ends.
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
	p := &Process{name: name, log: log.Name(), pid: cmd.Process.Pid, cancel: cancel,
		done: make(chan struct{})}
	go func() {
		p.err = <-exited
		close(p.done)
	}()
	c.started = append(c.started, p)
	return p, nil
}

// Pid is the pid of the program.
func (p *Process) Pid() int { return p.pid }

// Exited is closed when the program has ended for any reason.
func (p *Process) Exited() <-chan struct{} { return p.done }

// Stop sends SIGTERM, and SIGKILL after 20 seconds, and returns when the program has ended. If the
// program had ended before, the first call returns an error with the last lines of the log.
func (p *Process) Stop() (err error) {
	p.stop.Do(func() {
		select {
		case <-p.done:
			err = fmt.Errorf("%s had ended: %w%s", p.name, exit(p.err), p.lastLines())
		default:
		}
		p.cancel()
		<-p.done
	})
	<-p.done
	return err
}

// lastLines returns the last lines of the log, each after a line break.
func (p *Process) lastLines() string {
	const most = 5
	content, err := os.ReadFile(p.log)
	text := strings.TrimSpace(string(content))
	if err != nil || text == "" {
		return ""
	}
	lines := strings.Split(text, "\n")
	return "\n" + strings.Join(lines[max(0, len(lines)-most):], "\n")
}

func exit(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

// File is the path of a file in the control plane's temporary directory, which Stop removes.
func (c *ControlPlane) File(name string) string { return filepath.Join(c.temp.Dir, name) }
