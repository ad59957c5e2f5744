package poddir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// DiscardUnless removes a pod's directory from use, unless keep returns true. It renames the
// directory, which is one system call; EmptyTrash deletes it later. A missing directory is no
// error.
//
// No directory can be created during keep. So a caller that registers a pod before it calls Create
// does not lose its directory. keep must not block.
func (d *Dirs) DiscardUnless(uid string, keep func(uid string) bool) error {
	if err := checkUID(uid); err != nil {
		return err
	}
	return d.discardUnless(uid, keep)
}

func (d *Dirs) discardUnless(uid string, keep func(string) bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if keep(uid) {
		return nil
	}
	return d.discard(uid)
}

// discard renames the directory. The caller holds the lock.
func (d *Dirs) discard(uid string) error {
	for {
		d.next++
		err := unix.Renameat2(d.pods, uid, d.trash, uid+"."+strconv.Itoa(d.next),
			unix.RENAME_NOREPLACE)
		switch {
		case err == nil:
			d.changed(uid)
			return nil
		case errors.Is(err, unix.ENOENT):
			return nil
		case errors.Is(err, unix.EEXIST): // a name from before a restart of the agent
			continue
		}
		return fmt.Errorf("discard pod directory %s: %w", uid, err)
	}
}

// Retain discards the directories of all pods for which keep returns false: see DiscardUnless.
func (d *Dirs) Retain(keep func(uid string) bool) error {
	uids, err := namesIn(d.pods)
	errs := []error{err}
	for _, uid := range uids {
		errs = append(errs, d.discardUnless(uid, keep))
	}
	return errors.Join(errs...)
}

// EmptyTrash deletes discarded directories. It blocks for a few system calls per pod, because pods
// cannot create files.
func (d *Dirs) EmptyTrash(ctx context.Context) error {
	trash, err := os.OpenRoot(filepath.Join(d.root, trashDir))
	if err != nil {
		return err
	}
	defer trash.Close()
	names, err := namesIn(d.trash)
	errs := []error{err}
	for _, name := range names {
		if ctx.Err() != nil {
			break
		}
		errs = append(errs, trash.RemoveAll(name))
	}
	return errors.Join(append(errs, ctx.Err())...)
}

// namesIn lists an open directory. This package has created all names in it.
func namesIn(dir int) ([]string, error) {
	fd, err := openDir(dir, ".", 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "directory")
	defer f.Close()
	return f.Readdirnames(-1)
}
