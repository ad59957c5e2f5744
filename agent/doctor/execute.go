package doctor

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

const runTimeout = 10 * time.Second

// runVersion runs a program with --version, if nobody but root can have put it there.
func runVersion(ctx context.Context, path string, pid int) (string, error) {
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	if err := trusted(resolved, os.Lstat); err != nil {
		return "", err
	}
	if err := isProcess(resolved, pid); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, resolved, "--version")
	cmd.Env = []string{}
	cmd.Dir = "/"
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("run %s --version: %w", resolved, err)
	}
	return string(out), nil
}

// trusted returns an error unless the file and all directories above it are root's,
// and only root may write to them.
func trusted(path string, lstat func(string) (os.FileInfo, error)) error {
	for at := path; ; at = filepath.Dir(at) {
		info, err := lstat(at)
		if err != nil {
			return err
		}
		stat, ok := info.Sys().(*syscall.Stat_t)
		if !ok || stat.Uid != 0 || info.Mode().Perm()&0o022 != 0 {
			return fmt.Errorf("%s is not run: others than root may write to %s", path, at)
		}
		if at == filepath.Dir(at) {
			return nil
		}
	}
}

// isProcess returns an error unless the process runs that very file: a container's
// program may have the same path in its own root.
func isProcess(path string, pid int) error {
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
		return fmt.Errorf("%s is not run: process %d runs another file of that name, perhaps a container's", path, pid)
	}
	return nil
}
