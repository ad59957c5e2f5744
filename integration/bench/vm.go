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
	// vmMemory is what a VM process of the benchmarks holds.
	vmMemory = 64 << 20

	// emulatorName is one of those that the policy knows by default.
	emulatorName = "qemu-system-x86_64"
)

// vmCommand is what stands for a VM process where its end is measured: it says when
// it is asked to end, and ends.
func vmCommand() *cobra.Command {
	var memory int
	c := &cobra.Command{
		Use:    "vm",
		Short:  "Be a process with memory that ends with SIGTERM, and says when that came",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE:   func(*cobra.Command, []string) error { return beVM(memory, os.Stdin, os.Stdout) },
	}
	c.Flags().IntVar(&memory, "memory", vmMemory, "in bytes")
	return c
}

func beVM(memory int, in io.Reader, out io.Writer) error {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, unix.SIGTERM)
	if memory > 0 {
		_, err := unix.Mmap(-1, 0, memory, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_POPULATE)
		if err != nil {
			return fmt.Errorf("memory of the VM: %w", err)
		}
	}
	abandoned := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, in)
		close(abandoned)
	}()
	if _, err := fmt.Fprintln(out, "ready"); err != nil {
		return err
	}
	select {
	case <-asked:
		_, err := fmt.Fprintln(out, int64(host.LinuxClock{}.Now()))
		return err
	case <-abandoned:
		return nil
	}
}

// vm is a VM process: one that stands for it, or QEMU.
type vm struct {
	cmd  *exec.Cmd
	says *bufio.Reader
	gone <-chan host.Boottime // when it has ended
}

// emulators are the programs that VM processes execute.
type emulators struct {
	self    string // this program
	standIn string // the same, by the name of an emulator
	qemu    string // empty: there is none
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
		say("%s is not installed: left out", emulatorName)
		err = nil
	}
	return e, err
}

func standInVM(ctx context.Context, program string, memory int) *exec.Cmd {
	return exec.CommandContext(ctx, program, "vm", "--memory", strconv.Itoa(memory))
}

// qemuVM is QEMU with nothing but firmware, which says hello once it has set up. Its
// processor stands still: emulated, it would take one from who measures.
func qemuVM(ctx context.Context, program string) *exec.Cmd {
	return exec.CommandContext(ctx, program, "-nodefaults", "-display", "none", "-accel", "tcg", "-m", "64", "-S", "-qmp", "stdio")
}

// startVM starts a VM process in a cgroup, and waits until it can be asked to end.
func startVM(in cgroup, cmd *exec.Cmd) (v *vm, err error) {
	if _, err := cmd.StdinPipe(); err != nil { // it ends with this one's end
		return nil, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := in.start(cmd); err != nil {
		return nil, err
	}
	v = &vm{cmd: cmd, says: bufio.NewReader(output)}
	_, err = v.says.ReadString('\n')
	if err == nil {
		v.gone, err = goneAt(cmd.Process.Pid)
	}
	if err != nil {
		v.reap()
		return nil, fmt.Errorf("VM process does not start: %w", err)
	}
	return v, nil
}

// asked returns when the VM process says that it got SIGTERM.
func (v *vm) asked() (host.Boottime, error) {
	line, err := v.says.ReadString('\n')
	if err != nil {
		return 0, fmt.Errorf("VM process: it does not say when it was asked to end: %w", err)
	}
	at, err := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("VM process: %w", err)
	}
	return host.Boottime(at), nil
}

// reap removes what is left of a VM process, and kills it if it has not ended.
func (v *vm) reap() {
	_ = v.cmd.Process.Kill()
	_ = v.cmd.Wait()
}
