package nodeconfig

import (
	"bytes"
	"context"
	"os/exec"
	"syscall"
)

// Chroot returns a [Runner] for the programs of the node with this root file system.
func Chroot(root string) Runner {
	return func(ctx context.Context, program string, args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, program, args...)
		if root != "/" {
			cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: root}
			cmd.Dir = "/"
		}
		var out, errOut bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errOut
		if err := cmd.Run(); err != nil {
			return "", commandError(program, args, err, errOut.String())
		}
		return out.String(), nil
	}
}
