package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

const runTimeout = 10 * time.Second

// runVersion runs a program with --version, unless a user other than root could have written it.
// See Machine.Version.
func (h hostFS) runVersion(ctx context.Context, path string, pid int) (string, error) {
	resolved, err := h.resolve(path)
	if err != nil {
		return "", err
	}
	if err := checkTrusted(resolved, os.Lstat); err != nil {
		return "", err
	}
	if err := checkProcess(resolved, pid); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, resolved, "--version")
	cmd.Env = []string{}
	cmd.Dir = "/"
	out, err := cmd.Output()
	if h != "/" && errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("%s was not run: it needs libraries of the node", path)
	}
	if err != nil {
		return "", fmt.Errorf("run %s --version: %w", resolved, err)
	}
	return string(out), nil
}

// checkTrusted returns an error unless root owns the file and all directories above it, and only
// root may write to them.
func checkTrusted(path string, lstat func(string) (os.FileInfo, error)) error {
	for at := path; ; at = filepath.Dir(at) {
		info, err := lstat(at)
		if err != nil {
			return err
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok || stat.Uid != 0 || info.Mode().Perm()&0o022 != 0 {
			return fmt.Errorf("%s was not run: users other than root may write to %s", path, at)
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

// checkProcess returns an error unless the process runs this very file: the program of a
// container may have the same path in its own root. A pid of 0 passes.
func checkProcess(path string, pid int) error {
	if pid == 0 {
		return nil
	}
	running, err := os.Stat(procPath(pid, "exe"))
	if err != nil {
		return err
	}
	file, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !os.SameFile(running, file) {
		return fmt.Errorf(
			"%s was not run: process %d runs another file of this name, perhaps in a container",
			path,
			pid,
		)
	}
	return nil
}
