package kindcluster

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/mooring-vm/mooring/hack/throwaway/channel"
	"github.com/mooring-vm/mooring/hack/throwaway/child"
)

// Host is a machine with docker: this machine, or a throw-away node. Its methods are safe for
// concurrent use.
type Host interface {
	// Run runs a command until it or ctx ends.
	Run(ctx context.Context, c channel.Command) error
	// Share makes a file of this machine readable on the host, at path, until remove is called.
	Share(ctx context.Context, file string) (path string, remove func() error, err error)
}

// Machine is this machine as a Host.
type Machine struct {
	// Kind is the path of kind.
	Kind string
	// Kubeconfig is the file that kind writes. The user's own kubeconfig stays as it is.
	Kubeconfig string
}

// Run implements Host.
func (m Machine) Run(ctx context.Context, c channel.Command) error {
	program := c.Args[0]
	if program == "kind" {
		program = m.Kind
	}
	cmd := child.Command(ctx, program, c.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, c.Stdout, c.Stderr
	cmd.Env = append(os.Environ(), "KUBECONFIG="+m.Kubeconfig)
	if err := child.Run(cmd); err != nil {
		return fmt.Errorf("%s: %w", c.Args[0], err)
	}
	return nil
}

// output runs a command and returns its standard output. Standard error becomes part of the error.
func output(ctx context.Context, h Host, stdin io.Reader, args ...string) (string, error) {
	var out, errs bytes.Buffer
	err := h.Run(ctx, channel.Command{Args: args, Stdin: stdin, Stdout: &out, Stderr: &errs})
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, strings.TrimSpace(errs.String()))
	}
	return out.String(), nil
}

// Share implements Host. The file stays where it is.
func (m Machine) Share(
	_ context.Context, file string,
) (path string, remove func() error, err error) {
	path, err = filepath.Abs(file)
	return path, func() error { return nil }, err
}
