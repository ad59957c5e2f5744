package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// logFile is the file name of a candidate's log.
const logFile = "log"

// candidate is a plugin in its own process, with the runtime that calls it.
type candidate struct {
	*runtime
	name  string
	cmd   *exec.Cmd
	input io.WriteCloser
	out   io.Reader
}

// startCandidate starts a plugin and its runtime, which lists containers. The plugin is ready and
// not yet connected.
func startCandidate(ctx context.Context, name string, listed []member) (c *candidate, err error) {
	r, err := newRuntime("", listed)
	if err != nil {
		return nil, err
	}
	c = &candidate{runtime: r, name: name}
	if err := c.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting plugin %s: %w", name, err), r.close())
	}
	return c, nil
}

func (c *candidate) start(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(c.dir, logFile))
	if err != nil {
		return err
	}
	defer log.Close()
	c.cmd = exec.CommandContext(ctx, self, "plugin", c.name, "--socket", c.socket, "--root", c.dir)
	c.cmd.Stderr = log
	if c.input, err = c.cmd.StdinPipe(); err != nil {
		return err
	}
	if c.out, err = c.cmd.StdoutPipe(); err != nil {
		return err
	}
	if err := c.cmd.Start(); err != nil {
		return err
	}
	if line, err := bufio.NewReader(c.out).ReadString('\n'); err != nil || line != "ready\n" {
		return fmt.Errorf("it printed %q, want ready: %w", line, errors.Join(err, c.stop()))
	}
	return nil
}

// connect connects the plugin. whole is the time from the order to the end of Synchronize,
// synchronize the part of Synchronize.
func (c *candidate) connect(ctx context.Context) (whole, synchronize time.Duration, err error) {
	began := time.Now()
	if _, err := io.WriteString(c.input, "connect\n"); err != nil {
		return 0, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	synchronize, err = c.awaitPlugin(ctx)
	if err != nil {
		return 0, 0, fmt.Errorf("plugin %s does not connect: %w", c.name, err)
	}
	return time.Since(began), synchronize, nil
}

// stop closes the plugin's input and waits for its end.
func (c *candidate) stop() error {
	c.input.Close()
	return c.cmd.Wait()
}

// close ends the plugin and its runtime, and removes their files.
func (c *candidate) close() error {
	err := c.stop()
	if err != nil {
		err = fmt.Errorf("plugin %s: %w; its log: %s", c.name, err, c.log())
	}
	return errors.Join(err, c.runtime.close())
}

// log returns the end of the plugin's log.
func (c *candidate) log() []byte {
	content, _ := os.ReadFile(filepath.Join(c.dir, logFile))
	return content[max(0, len(content)-2000):]
}
