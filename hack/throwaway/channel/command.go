package channel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"
)

// Command is a program to run in the node. A nil input is empty. A nil output is discarded.
type Command struct {
	Args   []string
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	// Signals are sent to the command while it runs.
	Signals <-chan os.Signal
	// PTY gives the command a terminal of this size.
	PTY *Size
	// Resized carries new sizes of the terminal.
	Resized <-chan Size
}

// Size is the size of a terminal in characters.
type Size struct{ Rows, Columns int }

// ExitError is the error of a failed command.
type ExitError struct {
	Args []string
	// Code is the exit code, or 128 plus the number of the signal, as in a shell.
	Code   int
	Signal string
}

func (e *ExitError) Error() string {
	if e.Signal != "" {
		return fmt.Sprintf("%s: killed by SIG%s", e.Args[0], e.Signal)
	}
	return fmt.Sprintf("%s: exit code %d", e.Args[0], e.Code)
}

// killDelay is the time between SIGTERM and SIGKILL when ctx ends.
const killDelay = 2 * time.Second

// Run runs a command and waits for its end. When ctx ends, the command and its children get SIGTERM
// and then SIGKILL, and Run returns ctx's cause.
func (c *Client) Run(ctx context.Context, cmd Command) error {
	if len(cmd.Args) == 0 {
		return errors.New("running a command in the node: no arguments given")
	}
	session, err := await(ctx, func() (*ssh.Session, error) { return c.begin(cmd) },
		func(late *ssh.Session) {
			_ = late.Signal(ssh.SIGKILL)
			_ = late.Close()
		})
	if err != nil {
		return fmt.Errorf("running %s in the node: %w", cmd.Args[0], err)
	}
	defer session.Close()
	exited := make(chan error, 1)
	go func() { exited <- session.Wait() }()
	return c.wait(ctx, cmd, session, exited)
}

func (c *Client) begin(cmd Command) (*ssh.Session, error) {
	session, err := c.ssh.NewSession()
	if err != nil {
		return nil, c.lost(err)
	}
	session.Stdin, session.Stdout, session.Stderr = cmd.Stdin, cmd.Stdout, cmd.Stderr
	err = requestPTY(session, cmd.PTY)
	if err == nil {
		err = session.Start(quote(cmd.Args))
	}
	if err != nil {
		_ = session.Close()
		return nil, c.lost(err)
	}
	return session, nil
}

func (c *Client) wait(
	ctx context.Context, cmd Command, session *ssh.Session, exited <-chan error,
) error {
	for {
		select {
		case err := <-exited:
			return c.result(cmd.Args, err)
		case <-c.done: // session.Wait would block on a blocked Stdin
			return fmt.Errorf("running %s in the node: %w", cmd.Args[0], c.err)
		case s, ok := <-cmd.Signals:
			if !ok {
				cmd.Signals = nil
				continue
			}
			if name, ok := signalName(s); ok {
				_ = session.Signal(name)
			}
		case size := <-cmd.Resized:
			_ = session.WindowChange(size.Rows, size.Columns)
		case <-ctx.Done():
			_ = session.Signal(ssh.SIGTERM)
			select {
			case <-exited: //nolint:errcheck // Run returns ctx's cause
			case <-c.done:
			case <-time.After(killDelay):
				_ = session.Signal(ssh.SIGKILL)
			}
			return fmt.Errorf("running %s in the node: %w", cmd.Args[0], context.Cause(ctx))
		}
	}
}

func (c *Client) result(args []string, err error) error {
	var exit *ssh.ExitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &exit) && exit.Signal() != "":
		return &ExitError{Args: args, Code: 128 + signalNumber(exit.Signal()),
			Signal: exit.Signal()}
	case errors.As(err, &exit):
		return &ExitError{Args: args, Code: exit.ExitStatus()}
	default:
		return fmt.Errorf("running %s in the node: %w", args[0], c.lost(err))
	}
}

func requestPTY(session *ssh.Session, size *Size) error {
	if size == nil {
		return nil
	}
	return session.RequestPty("xterm-256color", size.Rows, size.Columns,
		ssh.TerminalModes{ssh.ECHO: 1})
}

// quote quotes each argument for a POSIX shell.
func quote(args []string) string {
	words := make([]string, len(args))
	for i, a := range args {
		words[i] = "'" + strings.ReplaceAll(a, "'", `'\''`) + "'"
	}
	return strings.Join(words, " ")
}

// signals are the signals of RFC 4254.
func signals() map[ssh.Signal]syscall.Signal {
	return map[ssh.Signal]syscall.Signal{
		ssh.SIGABRT: syscall.SIGABRT, ssh.SIGALRM: syscall.SIGALRM, ssh.SIGFPE: syscall.SIGFPE,
		ssh.SIGHUP: syscall.SIGHUP,
		ssh.SIGILL: syscall.SIGILL, ssh.SIGINT: syscall.SIGINT, ssh.SIGKILL: syscall.SIGKILL,
		ssh.SIGPIPE: syscall.SIGPIPE,
		ssh.SIGQUIT: syscall.SIGQUIT, ssh.SIGSEGV: syscall.SIGSEGV, ssh.SIGTERM: syscall.SIGTERM,
		ssh.SIGUSR1: syscall.SIGUSR1, ssh.SIGUSR2: syscall.SIGUSR2,
	}
}

func signalName(s os.Signal) (ssh.Signal, bool) {
	for name, number := range signals() {
		if number == s {
			return name, true
		}
	}
	return "", false
}

func signalNumber(name string) int { return int(signals()[ssh.Signal(name)]) }

// SignalName returns RFC 4254's name of a signal. A signal without a name there gets one with its
// number.
func SignalName(s syscall.Signal) string {
	if name, ok := signalName(s); ok {
		return string(name)
	}
	return fmt.Sprintf("%d@mooring.dev", int(s))
}

// SignalNumber is the reverse of SignalName. An unknown name gives 0.
func SignalNumber(name string) syscall.Signal { return signals()[ssh.Signal(name)] }

// Output runs a command and returns its standard output without surrounding white space. Standard
// error becomes part of the error.
func (c *Client) Output(ctx context.Context, args ...string) (string, error) {
	var out, errs bytes.Buffer
	err := c.Run(ctx, Command{Args: args, Stdout: &out, Stderr: &errs})
	if msg := strings.TrimSpace(errs.String()); err != nil && msg != "" {
		err = fmt.Errorf("%w: %s", err, msg)
	}
	return strings.TrimSpace(out.String()), err
}
