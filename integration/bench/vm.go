package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/mooring-vm/mooring/lifecycle/host"
)

const (
	// vmMemory is the memory of a VM process in the benchmarks.
	vmMemory = 64 << 20

	// emulatorName is an emulator recognized by the default policy.
	emulatorName = "qemu-system-x86_64"
)

// vmCommand replaces a VM process when a benchmark measures its end. It prints the time of SIGTERM,
// and ends.
func vmCommand() *cobra.Command {
	var memory int
	c := &cobra.Command{
		Use:    "vm",
		Short:  "Run a VM stand-in that prints the time of SIGTERM and ends",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE:   func(*cobra.Command, []string) error { return runVM(memory, os.Stdin, os.Stdout) },
	}
	c.Flags().IntVar(&memory, "memory", vmMemory, "memory in bytes")
	return c
}

func runVM(memory int, in io.Reader, out io.Writer) error {
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, unix.SIGTERM)
	if memory > 0 {
		_, err := unix.Mmap(-1, 0, memory, unix.PROT_READ|unix.PROT_WRITE,
			unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
		if err != nil {
			return fmt.Errorf("memory of the VM: %w", err)
		}
	}
	inputClosed := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, in)
		close(inputClosed)
	}()
	if _, err := fmt.Fprintln(out, "ready"); err != nil {
		return err
	}
	select {
	case <-terminated:
		_, err := fmt.Fprintln(out, int64(host.LinuxClock{}.Now()))
		return err
	case <-inputClosed:
		return nil
	}
}

// vm is a VM process: the stand-in or QEMU.
type vm struct {
	cmd    *exec.Cmd
	output *bufio.Reader
	gone   <-chan host.Boottime // receives the time of its end
}

// emulators are the executables of VM processes.
type emulators struct {
	self    string // this program
	standIn string // this program under an emulator's name
	qemu    string // empty if not installed
}

// findEmulators looks for QEMU, and puts the stand-in into dir.
func findEmulators(dir string) (e emulators, err error) {
	if e.self, err = os.Executable(); err != nil {
		return e, err
	}
	if e.standIn, err = copyProgram(e.self, dir, emulatorName); err != nil {
		return e, err
	}
	e.qemu, err = exec.LookPath(emulatorName)
	if errors.Is(err, exec.ErrNotFound) {
		logf("%s is not installed: skipping its measurements", emulatorName)
		err = nil
	}
	return e, err
}

func standInVM(ctx context.Context, program string, memory int) *exec.Cmd {
	return exec.CommandContext(ctx, program, "vm", "--memory", strconv.Itoa(memory))
}

// qemuVM is QEMU with firmware only. It prints a greeting after its setup. Its processor is
// stopped, because an emulated one would occupy a CPU during the measurement.
func qemuVM(ctx context.Context, program string) *exec.Cmd {
	return exec.CommandContext(ctx, program, "-nodefaults", "-display", "none", "-accel", "tcg",
		"-m", "64", "-S", "-qmp", "stdio")
}

// startVM starts a VM process in a cgroup, and waits until it can receive SIGTERM.
func startVM(in cgroup, cmd *exec.Cmd) (v *vm, err error) {
	if _, err := cmd.StdinPipe(); err != nil { // the process ends when this end closes
		return nil, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := in.start(cmd); err != nil {
		return nil, err
	}
	v = &vm{cmd: cmd, output: bufio.NewReader(output)}
	_, err = v.output.ReadString('\n')
	if err == nil {
		v.gone, err = goneAt(cmd.Process.Pid)
	}
	if err != nil {
		v.reap()
		return nil, fmt.Errorf("VM process does not start: %w", err)
	}
	return v, nil
}

// signalTime returns the time at which the VM process received SIGTERM.
func (v *vm) signalTime() (host.Boottime, error) {
	line, err := v.output.ReadString('\n')
	if err != nil {
		return 0, fmt.Errorf("VM process: reading the time of its SIGTERM: %w", err)
	}
	at, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("VM process: %w", err)
	}
	return host.Boottime(at), nil
}

// reap kills a running VM process and removes its remains.
func (v *vm) reap() {
	_ = v.cmd.Process.Kill()
	_ = v.cmd.Wait()
}
