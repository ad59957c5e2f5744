package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"

	nri "github.com/containerd/nri/pkg/api"
	"golang.org/x/sys/unix"
)

// heldMemlock is what the launchers ask for that run: not more than everybody may
// have, so that nobody needs the capability to raise it.
const heldMemlock = 4 << 20

// holding is launchers that run: each a process in a cgroup of its own, with the
// memory lock and the cgroup setting that its annotations ask for. Their runtime
// is the one that lists them, and not a real one.
type holding struct {
	*runtime
	cgroup    string
	processes []*exec.Cmd
	input     io.Closer // with which the processes end
}

// hold starts n launchers, and a runtime that lists them at socket.
func hold(socket string, n int) (h *holding, err error) {
	h = &holding{}
	if err := h.startAll(n, launchers(n), socket); err != nil {
		return nil, errors.Join(fmt.Errorf("starting %d launchers: %w", n, err), h.close())
	}
	return h, nil
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
	delete(m.pod.Annotations, "devices.memlock.mooring.dev")
	m.pod.Annotations["requires-lock.memlock.mooring.dev"] = "true"
	m.pod.Annotations["guest-memory.memlock.mooring.dev"] = strconv.Itoa(heldMemlock)
	if limited {
		if err := os.WriteFile(filepath.Join(path, "memory.high"), []byte(launcherMemoryHigh), 0o644); err != nil {
			return err
		}
	} else {
		delete(m.pod.Annotations, "memory.high.cgroup.mooring.dev")
	}
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	cmd := exec.Command("cat")
	cmd.Stdin = input
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	if err := cmd.Start(); err != nil {
		return err
	}
	h.processes = append(h.processes, cmd)
	m.ctr.Pid, m.ctr.State = uint32(cmd.Process.Pid), nri.ContainerState_CONTAINER_RUNNING
	m.ctr.Rlimits = []*nri.POSIXRlimit{{Type: "RLIMIT_MEMLOCK", Soft: heldMemlock, Hard: heldMemlock}}
	return unix.Prlimit(cmd.Process.Pid, unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: heldMemlock, Max: heldMemlock}, nil)
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
	scopes, _ := filepath.Glob(filepath.Join(h.cgroup, "*.scope"))
	for _, dir := range append(scopes, h.cgroup) {
		if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	if h.runtime != nil {
		errs = append(errs, h.runtime.close())
	}
	return errors.Join(errs...)
}

// cgroup2 finds the cgroup v2 hierarchy: by itself, or beside those of version 1.
func cgroup2() (string, error) {
	for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		var st unix.Statfs_t
		if unix.Statfs(mount, &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC {
			return mount, nil
		}
	}
	return "", errors.New("no cgroup v2 hierarchy at /sys/fs/cgroup or below it")
}
