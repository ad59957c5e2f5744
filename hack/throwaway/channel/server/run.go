package server

import (
	"io"
	"os/exec"
	"syscall"
	"time"

	"github.com/creack/pty"
	"github.com/gliderlabs/ssh"

	"github.com/mooring-vm/mooring/hack/throwaway/channel"
)

// outputDelay bounds the wait for output after a command's end. Daemons started by the command keep
// its pipes open.
const outputDelay = 2 * time.Second

func runStreams(s ssh.Session, cmd *exec.Cmd) error {
	cmd.Stdout, cmd.Stderr = s, s.Stderr()
	cmd.WaitDelay = outputDelay
	in, err := cmd.StdinPipe() // with cmd.Stdin, Wait would wait until the client closes its end
	if err != nil {
		return err
	}
	signals := make(chan ssh.Signal, 16)
	s.Signals(signals)
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(in, s)
		_ = in.Close()
	}()
	supervise(s, cmd, signals, nil, nil)
	return nil
}

func runTerminal(s ssh.Session, cmd *exec.Cmd, size ssh.Pty, resized <-chan ssh.Window) error {
	cmd.Env = append(cmd.Env, "TERM="+size.Term)
	cmd.SysProcAttr = nil // pty.Start creates the session
	terminal, err := pty.StartWithSize(cmd, winsize(size.Window))
	if err != nil {
		return err
	}
	defer terminal.Close()
	signals := make(chan ssh.Signal, 16)
	s.Signals(signals)
	go func() { _, _ = io.Copy(terminal, s) }()
	output := make(chan struct{})
	go func() {
		defer close(output)
		_, _ = io.Copy(s, terminal)
	}()
	supervise(s, cmd, signals, resized, func(w ssh.Window) {
		_ = pty.Setsize(terminal, winsize(w))
	})
	select {
	case <-output:
	case <-time.After(outputDelay):
	}
	return nil
}

// supervise waits for the command. It forwards signals to the process group and sizes to the
// terminal. It ends the group when the client disconnects.
func supervise(
	s ssh.Session, cmd *exec.Cmd, signals <-chan ssh.Signal, resized <-chan ssh.Window,
	resize func(ssh.Window),
) {
	group := -cmd.Process.Pid
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = cmd.Wait()
	}()
	gone := s.Context().Done()
	for {
		select {
		case <-exited:
			return
		case name := <-signals:
			if n := channel.SignalNumber(string(name)); n != 0 {
				_ = syscall.Kill(group, n)
			}
		case w, ok := <-resized:
			if !ok {
				resized = nil
				continue
			}
			resize(w)
		case <-gone:
			_ = syscall.Kill(group, syscall.SIGKILL)
			gone = nil
		}
	}
}

func winsize(w ssh.Window) *pty.Winsize {
	return &pty.Winsize{Rows: uint16(w.Height), Cols: uint16(w.Width)}
}
