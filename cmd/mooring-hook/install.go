package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/mooring-vm/mooring/lifecycle/gate"
)

const installHelp = `Copies this program to FILE in one step: a mount of FILE gets either the old program or
the new one. The init container of the agent's DaemonSet runs it, because its image has
no other program for a copy. With --node, the program also replaces an older start gate on the
node. A failure of that is a warning: the older gate still works.

  mooring-hook install [flags] FILE
`

func (p program) install(args []string) error {
	f := p.flags(installHelp)
	node := f.String("node", "", "`directory` with the node's root file system")
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
	if *node != "" {
		p.refreshGate(*node, self)
	}
	return nil
}

func (p program) refreshGate(node, self string) {
	text, err := os.ReadFile(self)
	changed := false
	if err == nil {
		changed, err = gate.Refresh(node, text)
	}
	switch {
	case err != nil:
		fmt.Fprintf(p.errOut, "mooring-hook: %v; run `mooring node configure` on the node\n", err)
	case changed:
		fmt.Fprintf(p.errOut, "mooring-hook: %s: replaced\n", gate.HookPath)
	}
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
