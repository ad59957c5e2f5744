package kubevirtnode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"

	"github.com/mooring-vm/mooring/hack/kubevirt"
	"github.com/mooring-vm/mooring/hack/throwaway/cache"
)

// EnvUpgrade names the environment variable with the socket for [RequestUpgrade].
const EnvUpgrade = "MOORING_KUBEVIRT_UPGRADE"

// images are entries of the cache with images of KubeVirt.
type images []*cache.Entry

// buildImages makes the images of the chosen version and the one for the upgrade.
func (c *Cluster) buildImages(ctx context.Context) (all images, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, all.Close())
		}
	}()
	first, err := buildImage(ctx, c.builder)
	if err != nil {
		return nil, err
	}
	all = images{first}
	if c.upgrade == "" {
		return all, nil
	}
	now := kubevirt.Minor()
	if err := os.Setenv(kubevirt.EnvVersion, c.upgrade); err != nil {
		return all, err
	}
	second, err := buildImage(ctx, c.builder)
	if err == nil {
		all = append(all, second)
	}
	return all, errors.Join(err, os.Setenv(kubevirt.EnvVersion, now))
}

func (i images) archives() (files []string) {
	for _, entry := range i {
		files = append(files, filepath.Join(entry.Dir, imageFile))
	}
	return files
}

// Close frees the entries.
func (i images) Close() error {
	var errs []error
	for _, entry := range i {
		errs = append(errs, entry.Close())
	}
	return errors.Join(errs...)
}

// Upgrade moves KubeVirt to the version of the options, and returns when its virt-handler is ready
// on each node. Running VMs keep their launchers.
func (c *Cluster) Upgrade(ctx context.Context) error {
	if c.upgrade == "" {
		return errors.New("the cluster was started without a version for an upgrade")
	}
	if err := os.Setenv(kubevirt.EnvVersion, c.upgrade); err != nil {
		return err
	}
	if err := c.KubeVirt.Upgrade(ctx, imageName()); err != nil {
		return err
	}
	return c.startHandler(ctx)
}

// ServeUpgrade lets other processes upgrade the cluster by [RequestUpgrade], until Stop or the end
// of ctx. It returns the socket.
func (c *Cluster) ServeUpgrade(ctx context.Context) (socket string, err error) {
	socket = filepath.Join(c.dir, "upgrade.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		return "", err
	}
	ctx, c.stopServing = context.WithCancel(ctx)
	context.AfterFunc(ctx, func() { _ = l.Close() })
	c.serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // ctx has ended
			}
			if err := c.Upgrade(ctx); err != nil {
				fmt.Fprint(conn, err)
			}
			_ = conn.Close()
		}
	})
	return socket, nil
}

// RequestUpgrade upgrades the cluster of this socket, and returns when [Cluster.Upgrade] has.
func RequestUpgrade(ctx context.Context, socket string) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	failure, err := io.ReadAll(conn)
	if err == nil && len(failure) > 0 {
		err = errors.New(string(failure))
	}
	return err
}
