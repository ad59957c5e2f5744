// Package child runs programs that end with this process, even if this process is killed.
package child

import (
	"context"
	"os/exec"
	"runtime"
	"syscall"
	"time"
)

// endDelay is the time between SIGTERM and SIGKILL.
const endDelay = 20 * time.Second

// Command is exec.CommandContext for a program with children. When ctx ends, all of them get
// SIGTERM and time to clean up. The program gets SIGKILL 20 seconds later. Start it with Run or
// Start.
func Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM) }
	cmd.WaitDelay = endDelay
	return cmd
}

// Isolated is Command in its own mount and PID namespaces, if this process may create them. Mounts
// and children of the program then end with it.
func Isolated(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := Command(ctx, name, args...)
	if mayIsolate(ctx) {
		isolate(cmd.SysProcAttr)
	}
	return cmd
}

func isolate(a *syscall.SysProcAttr) {
	a.Cloneflags |= syscall.CLONE_NEWPID
	// unlike a clone flag, this also makes every mount private
	a.Unshareflags |= syscall.CLONE_NEWNS
}

// mayIsolate reports whether this process may create the namespaces. It tries to, because in a
// container neither root nor capabilities answer the question.
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

// Start is cmd.Start for a command that gets the signal when this process ends. The channel
// receives the result of cmd.Wait, which the caller must not call.
//
// The kernel sends the signal when the starting thread ends (golang.org/issue/27505), so the
// goroutine keeps its thread until the command has ended.
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
