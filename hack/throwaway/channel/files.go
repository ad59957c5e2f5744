package channel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/pkg/sftp"
)

// Push copies a local file to the node with the given name and mode. It writes a file beside the
// target and renames it, so the target is never incomplete.
func (c *Client) Push(ctx context.Context, local, remote string, mode fs.FileMode) error {
	in, err := os.Open(local)
	if err != nil {
		return fmt.Errorf("copying into the node: %w", err)
	}
	defer in.Close()
	return c.PushFrom(ctx, in, remote, mode)
}

// PushFrom is Push from a reader.
func (c *Client) PushFrom(
	ctx context.Context, in io.Reader, remote string, mode fs.FileMode,
) error {
	err := c.withSFTP(ctx, func(s *sftp.Client) error {
		if err := s.MkdirAll(path.Dir(remote)); err != nil {
			return err
		}
		tmp := remote + ".push"
		if err := writeRemote(s, tmp, in, mode); err != nil {
			return errors.Join(err, s.Remove(tmp))
		}
		return s.PosixRename(tmp, remote)
	})
	if err != nil {
		return fmt.Errorf("copying into the node to %s: %w", remote, err)
	}
	return nil
}

func writeRemote(s *sftp.Client, name string, in io.Reader, mode fs.FileMode) error {
	out, err := s.Create(name)
	if err != nil {
		return err
	}
	if _, err := out.ReadFrom(in); err != nil {
		return errors.Join(err, out.Close())
	}
	return errors.Join(out.Close(), s.Chmod(name, mode))
}

// Pull copies a file from the node. The target is never incomplete.
func (c *Client) Pull(ctx context.Context, remote, local string) error {
	if err := os.MkdirAll(filepath.Dir(local), 0o755); err != nil {
		return fmt.Errorf("copying out of the node: %w", err)
	}
	err := c.withSFTP(ctx, func(s *sftp.Client) error {
		in, err := s.Open(remote)
		if err != nil {
			return err
		}
		defer in.Close()
		return writeLocal(local, in)
	})
	if err != nil {
		return fmt.Errorf("copying %s out of the node: %w", remote, err)
	}
	return nil
}

func writeLocal(name string, in *sftp.File) error {
	tmp := name + ".pull"
	out, err := os.Create(tmp)
	if err != nil {
		return err
	}
	_, err = in.WriteTo(out)
	if err = errors.Join(err, out.Close()); err == nil {
		err = os.Rename(tmp, name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return nil
}

func (c *Client) openSFTP() (*sftp.Client, error) {
	s, err := sftp.NewClient(c.ssh, sftp.UseConcurrentWrites(true), sftp.UseConcurrentReads(true))
	return s, c.lost(err)
}

// withSFTP runs fn with an SFTP session that ends with ctx.
func (c *Client) withSFTP(ctx context.Context, fn func(*sftp.Client) error) error {
	s, err := await(ctx, c.openSFTP, func(late *sftp.Client) { _ = late.Close() })
	if err != nil {
		return err
	}
	defer s.Close()
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	err = fn(s)
	if !stop() {
		return context.Cause(ctx)
	}
	if errors.Is(err, sftp.ErrSSHFxConnectionLost) || errors.Is(err, io.EOF) {
		return c.lost(err)
	}
	return err
}
