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

// heldMemlock is what the launchers ask for that run: not more than everybody may
// have, so that nobody needs the capability to raise it.
const heldMemlock = 4 << 20

// holding is launchers that run: each a process in a cgroup of its own, with the
// memory lock and the cgroup setting that its annotations ask for, and beside it, if
// so wanted, one that executes an emulator. Their runtime is the one that lists them,
// and not a real one.
type holding struct {
	*runtime
	cgroup    string
	programs  string // folder for the emulator
	emulator  string // empty: no VMs
	processes []*exec.Cmd
	vms       []*exec.Cmd
	input     io.Closer // with which the processes end
}

// hold starts n launchers, with VMs or without, and a runtime that lists them at
// socket.
func hold(socket string, n int, vms bool) (h *holding, err error) {
	h = &holding{}
	if vms {
		err = h.makeEmulator()
	}
	if err := errors.Join(err, h.startAll(n, launchers(n), socket)); err != nil {
		return nil, errors.Join(fmt.Errorf("starting %d launchers: %w", n, err), h.close())
	}
	return h, nil
}

// makeEmulator gives a program that does nothing an emulator's name.
func (h *holding) makeEmulator() error {
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

func (h *holding) startAll(n int, all []member, socket string) error {
	mount, err := cgroup2()
	if err != nil {
		return err
	}
	h.cgroup = filepath.Join(mount, "mooring-bench-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(h.cgroup, 0o755); err != nil {
		return err
	}
	// A hierarchy without the controller has no such setting.
	limited := os.WriteFile(filepath.Join(h.cgroup, "cgroup.subtree_control"), []byte("+memory"), 0o644) == nil
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

func (h *holding) startOne(m member, input *os.File, limited bool) error {
	path := filepath.Join(h.cgroup, "cri-containerd-"+m.ctr.Id+".scope")
	if err := os.Mkdir(path, 0o755); err != nil {
		return err
	}
	askForLittle(m)
	if limited {
		if err := os.WriteFile(filepath.Join(path, "memory.high"), []byte(launcherMemoryHigh), 0o644); err != nil {
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
	m.ctr.Rlimits = []*nri.POSIXRlimit{{Type: "RLIMIT_MEMLOCK", Soft: heldMemlock, Hard: heldMemlock}}
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

// askForLittle changes what a launcher asks for to what anybody may have.
func askForLittle(m member) {
	delete(m.pod.Annotations, "devices.memlock.mooring.dev")
	m.pod.Annotations["requires-lock.memlock.mooring.dev"] = "true"
	m.pod.Annotations["guest-memory.memlock.mooring.dev"] = strconv.Itoa(heldMemlock)
}

// run runs a process that ends with its input.
func run(in cgroup, program string, input *os.File) (*exec.Cmd, error) {
	cmd := exec.Command(program)
	cmd.Stdin = input
	if err := in.start(cmd); err != nil {
		return nil, err
	}
	limit := unix.Rlimit{Cur: heldMemlock, Max: heldMemlock}
	return cmd, unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_MEMLOCK, &limit, nil)
}

// close ends the launchers and their runtime.
func (h *holding) close() error {
	var errs []error
	if h.input != nil {
		errs = append(errs, h.input.Close())
	}
	for _, p := range h.processes {
		errs = append(errs, p.Wait())
	}
	for _, v := range h.vms {
		_ = v.Wait() // an agent that is there ends it, as its launcher ends
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
