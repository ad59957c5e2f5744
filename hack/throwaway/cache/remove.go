package cache

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// attemptSuffix ends the names of directories of running builds. Each attempt has a directory of
// its own, because children of a killed builder may still write to the old one.
const attemptSuffix = ".tmp-*"

// removeAttempts removes the directories of killed builders of dir. The caller holds the entry's
// lock. A directory with a running writer stays until the next call.
func removeAttempts(dir string) error {
	left, err := filepath.Glob(dir + ".tmp*")
	if err != nil {
		return err
	}
	var mounted *mountedError
	for _, tmp := range left {
		if err := remove(tmp); errors.As(err, &mounted) {
			return err
		}
	}
	return nil
}

func removeEntry(dir string) error {
	if err := os.Remove(sumFile(dir)); err != nil && !os.IsNotExist(err) {
		return err
	}
	return remove(dir)
}

// mountedError stops a removal of files through a mount, such as the machine's /dev.
type mountedError struct{ dir, mount string }

func (e *mountedError) Error() string {
	return fmt.Sprintf("not removing %s: %s is a mount point; run `umount %s` first",
		e.dir, e.mount, e.mount)
}

// remove is os.RemoveAll for a directory without mounts.
func remove(dir string) error {
	mount, err := mountBelow(dir)
	if err != nil {
		return fmt.Errorf("removing %s: %w", dir, err)
	}
	if mount != "" {
		return &mountedError{dir: dir, mount: mount}
	}
	return os.RemoveAll(dir)
}

// mountBelow returns a mount point at or below dir, or "".
func mountBelow(dir string) (string, error) {
	resolved, err := filepath.EvalSymlinks(dir) // mountinfo has resolved paths
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	f, err := os.Open("/proc/thread-self/mountinfo")
	if err != nil {
		return "", err
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	for in.Scan() {
		point := mountPoint(in.Text())
		if point == resolved || strings.HasPrefix(point, resolved+"/") {
			return point, nil
		}
	}
	return "", in.Err()
}

// mountPoint is the fifth field of a line of mountinfo (proc_pid_mountinfo(5)). The kernel writes
// spaces and similar characters in octal.
func mountPoint(line string) string {
	fields := strings.Fields(line)
	if len(fields) < 5 {
		return ""
	}
	point, err := strconv.Unquote(`"` + strings.ReplaceAll(fields[4], `"`, `\"`) + `"`)
	if err != nil {
		return fields[4]
	}
	return point
}
