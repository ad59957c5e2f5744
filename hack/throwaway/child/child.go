// Package child runs programs that do not outlive this process, whatever ends it.
package child

import (
	"context"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// endDelay is how long a command has to end after SIGTERM.
const endDelay = 20 * time.Second

// Command is exec.CommandContext for a program with children of its own: when
// ctx ends they all get SIGTERM, so that they can tidy up, and the program
// SIGKILL 20 seconds later. Start it by Run or Start.
func Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = endDelay
	return cmd
}

// Isolated is Command in a mount and a PID namespace of its own, where this
// process may make them: what the program mounts is seen by nobody else and
// goes with it, and so do all of its children.
func Isolated(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := Command(ctx, name, args...)
	if mayIsolate(ctx) {
		isolate(cmd.SysProcAttr)
	}
	return cmd
}

func isolate(a *syscall.SysProcAttr) {
	a.Cloneflags |= syscall.CLONE_NEWPID
	a.Unshareflags |= syscall.CLONE_NEWNS // makes every mount private too, which a clone flag does not
}

// mayIsolate tries it, because neither root nor its capabilities say so in a
// container.
func mayIsolate(ctx context.Context) bool {
	probe := exec.CommandContext(ctx, "true")
	probe.SysProcAttr = &syscall.SysProcAttr{}
	isolate(probe.SysProcAttr)
	return probe.Run() == nil
}

// Run is cmd.Run for a command that gets SIGKILL when this process ends.
func Run(cmd *exec.Cmd) error {
	exited, err := Start(cmd, syscall.SIGKILL)
	if err != nil {
		return err
	}
	return <-exited
}

// Start is cmd.Start for a command that gets the signal when this process ends.
// The channel tells what cmd.Wait returned, which is not to be called.
//
// The signal is sent when the starting *thread* ends (golang.org/issue/27505):
// its goroutine keeps that thread until the command is gone.
func Start(cmd *exec.Cmd, signal syscall.Signal) (<-chan error, error) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = signal
	started, exited := make(chan error, 1), make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			exited <- cmd.Wait()
		}
	}()
	return exited, <-started
}
