package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// readAtOnce is how many names of a directory are held in memory at once: a pod
// may make as many as the file system has inodes.
const readAtOnce = 128

// Discard takes the directory of a pod out of use. It renames it, which is one
// system call; EmptyTrash deletes. A pod without a directory is no error.
func (d *PodDirs) Discard(uid string) error {
	if err := checkUID(uid); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.discard(uid)
}

// discard needs the lock.
func (d *PodDirs) discard(uid string) error {
	for {
		d.next++
		err := unix.Renameat2(d.pods, uid, d.trash, uid+"."+strconv.Itoa(d.next), unix.RENAME_NOREPLACE)
		switch {
		case err == nil, errors.Is(err, unix.ENOENT):
			return nil
		case errors.Is(err, unix.EEXIST): // from before a restart of the agent
			continue
		}
		return fmt.Errorf("discard pod directory %s: %w", uid, err)
	}
}

// Retain discards the directories of all pods that keep does not want. keep is
// asked while no directory can be created, so a caller that makes a pod known
// before it calls Create does not lose its directory; it must not block.
func (d *PodDirs) Retain(keep func(uid string) bool) error {
	dir, err := openDir(d.pods, ".", 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(dir), podsDir)
	defer f.Close()
	names, err := f.Readdirnames(-1) // made by Create: as many as there are pods
	errs := []error{err}
	for _, uid := range names {
		errs = append(errs, d.discardUnless(uid, keep))
	}
	return errors.Join(errs...)
}

func (d *PodDirs) discardUnless(uid string, keep func(string) bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if keep(uid) {
		return nil
	}
	return d.discard(uid)
}

// EmptyTrash deletes what was discarded. It blocks for as long as that takes.
func (d *PodDirs) EmptyTrash(ctx context.Context) error {
	return errors.Join(emptyDir(ctx, d.trash), ctx.Err())
}

// emptyDir deletes all that is in a directory. A pod can nest directories so
// deeply that walking down would exhaust stack or file descriptors. So nothing is
// walked: what a subdirectory holds is moved up first.
func emptyDir(ctx context.Context, top int) error {
	var serial int
	return drain(ctx, top, func(name string) error { return remove(ctx, top, name, &serial) })
}

// remove deletes an entry of top. The entries of a directory move to top, where
// drain comes across them.
func remove(ctx context.Context, top int, name string, serial *int) error {
	err := unix.Unlinkat(top, name, 0)
	if !errors.Is(err, unix.EISDIR) {
		return err
	}
	if err = unix.Unlinkat(top, name, unix.AT_REMOVEDIR); !errors.Is(err, unix.ENOTEMPTY) {
		return err
	}
	dir, err := openDir(top, name, unix.RESOLVE_BENEATH)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	if err := drain(ctx, dir, func(child string) error { return moveUp(dir, child, top, serial) }); err != nil {
		return err
	}
	return unix.Unlinkat(top, name, unix.AT_REMOVEDIR)
}

// moveUp moves an entry to top under a name that is free there.
func moveUp(dir int, child string, top int, serial *int) error {
	for {
		*serial++
		err := unix.Renameat2(dir, child, top, "moved."+strconv.Itoa(*serial), unix.RENAME_NOREPLACE)
		if !errors.Is(err, unix.EEXIST) {
			return err
		}
	}
}

// drain calls take for the names in a directory, again and again until a pass
// over all of them takes nothing more out. The error says why the rest is left.
func drain(ctx context.Context, dir int, take func(string) error) error {
	for {
		taken, err := drainPass(ctx, dir, take)
		if taken == 0 || ctx.Err() != nil {
			return errors.Join(err, ctx.Err())
		}
	}
}

// drainPass returns how many names were taken out, and the first failure.
func drainPass(ctx context.Context, dir int, take func(string) error) (taken int, failed error) {
	fd, err := openDir(dir, ".", 0)
	if err != nil {
		return 0, err
	}
	f := os.NewFile(uintptr(fd), "directory")
	defer f.Close()
	for ctx.Err() == nil {
		names, err := f.Readdirnames(readAtOnce)
		for _, name := range names {
			if err := take(name); err == nil {
				taken++
			} else if failed == nil {
				failed = fmt.Errorf("delete %.80q: %w", name, err)
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return taken, err
		}
	}
	return taken, failed
}
