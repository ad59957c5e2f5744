package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// cgroup is a cgroup's directory.
type cgroup string

// newCgroup makes a cgroup for this process.
func newCgroup(name string) (cgroup, error) {
	mount, err := cgroup2()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(mount, "mooring-bench-"+strconv.Itoa(os.Getpid())+"-"+name)
	return cgroup(dir), os.Mkdir(dir, 0o755)
}

// start starts a program in the cgroup.
func (c cgroup) start(cmd *exec.Cmd) error {
	dir, err := os.Open(string(c))
	if err != nil {
		return err
	}
	defer dir.Close()
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	return cmd.Start()
}

// remove kills the processes in the cgroup and removes it.
func (c cgroup) remove(ctx context.Context) error {
	if err := os.WriteFile(filepath.Join(string(c), "cgroup.kill"), []byte("1"), 0); err != nil {
		return err
	}
	return await(ctx, func() (bool, error) {
		err := os.Remove(string(c))
		if errors.Is(err, unix.EBUSY) {
			return false, nil
		}
		return true, err
	})
}

// await polls until done returns true, at most for waitTimeout.
func await(ctx context.Context, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// cgroup2 finds the cgroup v2 hierarchy, alone or next to version 1.
func cgroup2() (string, error) {
	for _, mount := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/unified"} {
		var st unix.Statfs_t
		if unix.Statfs(mount, &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC {
			return mount, nil
		}
	}
	return "", errors.New("no cgroup v2 hierarchy at /sys/fs/cgroup or below it")
}

// copyProgram copies a program to dir under another name.
func copyProgram(program, dir, name string) (path string, err error) {
	in, err := os.Open(program)
	if err != nil {
		return "", fmt.Errorf("copying a program: %w", err)
	}
	defer in.Close()
	path = filepath.Join(dir, name)
	out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return "", fmt.Errorf("copying a program: %w", err)
	}
	_, err = io.Copy(out, in)
	return path, errors.Join(err, out.Close())
}
