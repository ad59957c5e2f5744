package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	nri "github.com/containerd/nri/pkg/api"
	"golang.org/x/sys/unix"
)

// residentMemlock is the memory-lock limit of running launchers. It is small enough for every
// process, so it requires no capability.
const residentMemlock = 4 << 20

// launcherSet is a set of running launchers with a fake runtime that lists them. Each launcher is a
// process in its own cgroup, with the memory lock and cgroup setting of its annotations.
// Optionally, an emulator process runs beside it.
type launcherSet struct {
	*runtime
	cgroup    string
	programs  string // directory of the emulator
	emulator  string // empty without VMs
	processes []*exec.Cmd
	vms       []*exec.Cmd
	input     io.Closer // ends the processes when closed
}

// startLaunchers starts n launchers, with or without VMs, and a runtime at socket that lists them.
func startLaunchers(socket string, n int, vms bool) (h *launcherSet, err error) {
	h = &launcherSet{}
	if vms {
		err = h.makeEmulator()
	}
	if err := errors.Join(err, h.startAll(n, launchers(n), socket)); err != nil {
		return nil, errors.Join(fmt.Errorf("starting %d launchers: %w", n, err), h.close())
	}
	return h, nil
}

// makeEmulator copies an idle program to an emulator's name.
func (h *launcherSet) makeEmulator() error {
	cat, err := exec.LookPath("cat")
	if err != nil {
		return err
	}
	if h.programs, err = os.MkdirTemp("", "bench-programs"); err != nil {
		return err
	}
	h.emulator, err = copyProgram(cat, h.programs, emulatorName)
	return err
}

func (h *launcherSet) startAll(n int, all []member, socket string) error {
	mount, err := cgroup2()
	if err != nil {
		return err
	}
	h.cgroup = filepath.Join(mount, "mooring-bench-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(h.cgroup, 0o755); err != nil {
		return err
	}
	// Without the memory controller the setting does not exist.
	limited := os.WriteFile(filepath.Join(h.cgroup, "cgroup.subtree_control"), []byte("+memory"),
		0o644) == nil
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	h.input = write
	for i := range n {
		if err := h.startOne(all[i], read, limited); err != nil {
			return err
		}
	}
	h.runtime, err = newRuntime(socket, all)
	return err
}

func (h *launcherSet) startOne(m member, input *os.File, limited bool) error {
	path := filepath.Join(h.cgroup, "cri-containerd-"+m.ctr.Id+".scope")
	if err := os.Mkdir(path, 0o755); err != nil {
		return err
	}
	lowerMemlock(m)
	if limited {
		if err := os.WriteFile(filepath.Join(path, "memory.high"), []byte(launcherMemoryHigh),
			0o644); err != nil {
			return err
		}
	} else {
		delete(m.pod.Annotations, "memory.high.cgroup.mooring.dev")
	}
	owner, err := run(cgroup(path), "cat", input)
	if err != nil {
		return err
	}
	h.processes = append(h.processes, owner)
	m.ctr.Pid, m.ctr.State = uint32(owner.Process.Pid), nri.ContainerState_CONTAINER_RUNNING
	m.ctr.Rlimits = []*nri.POSIXRlimit{{Type: "RLIMIT_MEMLOCK", Soft: residentMemlock,
		Hard: residentMemlock}}
	if h.emulator == "" {
		return nil
	}
	vm, err := run(cgroup(path), h.emulator, input)
	if err != nil {
		return err
	}
	h.vms = append(h.vms, vm)
	return nil
}

// lowerMemlock changes a launcher's request to a limit allowed for every process.
func lowerMemlock(m member) {
	delete(m.pod.Annotations, "devices.memlock.mooring.dev")
	m.pod.Annotations["requires-lock.memlock.mooring.dev"] = "true"
	m.pod.Annotations["guest-memory.memlock.mooring.dev"] = strconv.Itoa(residentMemlock)
}

// run starts a process that ends with its input.
func run(in cgroup, program string, input *os.File) (*exec.Cmd, error) {
	cmd := exec.Command(program)
	cmd.Stdin = input
	if err := in.start(cmd); err != nil {
		return nil, err
	}
	limit := unix.Rlimit{Cur: residentMemlock, Max: residentMemlock}
	return cmd, unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_MEMLOCK, &limit, nil)
}

// close ends the launchers and their runtime.
func (h *launcherSet) close() error {
	var errs []error
	if h.input != nil {
		errs = append(errs, h.input.Close())
	}
	for _, p := range h.processes {
		errs = append(errs, p.Wait())
	}
	for _, v := range h.vms {
		_ = v.Wait() // a present agent ends it with its launcher
	}
	scopes, _ := filepath.Glob(filepath.Join(h.cgroup, "*.scope"))
	for _, dir := range append(scopes, h.cgroup) {
		if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if h.programs != "" {
		errs = append(errs, os.RemoveAll(h.programs))
	}
	if h.runtime != nil {
		errs = append(errs, h.runtime.close())
	}
	return errors.Join(errs...)
}
