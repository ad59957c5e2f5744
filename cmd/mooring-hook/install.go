package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

const installHelp = `Copies this program to FILE in one step: a mount of FILE gets either the old program or
the new one. The init container of the agent's DaemonSet runs it, because its image has
no other program for a copy.

  mooring-hook install FILE
`

func (p program) install(args []string) error {
	f := p.flags(installHelp)
	if err := p.parse(f, args); err != nil {
		return err
	}
	if f.NArg() != 1 {
		return p.misused("install takes one FILE, got %d", f.NArg())
	}
	self, err := os.Executable()
	if err == nil {
		err = replace(f.Arg(0), self)
	}
	if err != nil {
		return fmt.Errorf("install: %w", err)
	}
	return nil
}

// replace copies a program beside the target and renames it.
func replace(target, source string) (err error) {
	from, err := os.Open(source)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.CreateTemp(filepath.Dir(target), filepath.Base(target)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(to.Name())
		}
	}()
	_, err = io.Copy(to, from)
	if err := errors.Join(err, to.Chmod(0o755), to.Sync(), to.Close()); err != nil {
		return err
	}
	return os.Rename(to.Name(), target)
}
