package nodeconfig

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// outdated reports whether containerd runs since before the file's last change. containerd creates
// its socket at its start. A containerd that does not run reads the file at its next start.
func (n *Node) outdated(f flavour, path string) (bool, error) {
	file, err := n.stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	socket, err := n.stat(f.socket)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil && file.ModTime().After(socket.ModTime()), err
}

// restart restarts containerd with Restart set. Otherwise the output has the command.
func (n *Node) restart(ctx context.Context, f flavour) error {
	unit, err := n.unit(f)
	if err != nil {
		return err
	}
	return n.systemctl(ctx, "containerd", "restart", unit)
}

// systemctl runs systemctl with Restart set. Otherwise the output has the command.
func (n *Node) systemctl(ctx context.Context, daemon string, args ...string) error {
	systemctl := "/usr/bin/systemctl"
	if found, err := n.exists(systemctl); err != nil {
		return err
	} else if !found {
		systemctl = "/bin/systemctl"
	}
	command := "systemctl " + strings.Join(args, " ")
	if !n.Restart {
		n.printf("the change needs a restart of %s: %s", daemon, command)
		return nil
	}
	if n.DryRun {
		n.printf("would run %s", command)
		return nil
	}
	if _, err := n.Run(ctx, systemctl, args...); err != nil {
		return fmt.Errorf("%s still runs with the old configuration: run %q on the node: %w",
			daemon, command, err)
	}
	n.printf("%s: done", command)
	return nil
}
