package guest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/mooring-vm/mooring/hack/throwaway/cache"
	"github.com/mooring-vm/mooring/hack/throwaway/channel"
	"github.com/mooring-vm/mooring/hack/throwaway/vm"
)

// EnvDir names the environment variable with the directory of the guest to use (see Guest.Dir).
const EnvDir = "MOORING_KIND"

// ErrNone reports that no cluster runs.
var ErrNone = errors.New("no cluster is running; `hack/kind up` starts one")

// kubeconfigFile is a kubeconfig for this machine in the guest's directory.
const kubeconfigFile = "kubeconfig"

// Publish writes into the guest's directory what Attach and KubeconfigFile need.
func (g *Guest) Publish(ctx context.Context) error {
	if err := g.Kubeconfig(ctx, g.KubeconfigFile()); err != nil {
		return err
	}
	return g.vm.Save()
}

// KubeconfigFile is the path of the cluster's kubeconfig, after Publish.
func (g *Guest) KubeconfigFile() string { return filepath.Join(g.dir, kubeconfigFile) }

// Attach connects to the guest in $MOORING_KIND, or else to the guest that MakeCurrent named. Its
// Stop ends only the connection.
func Attach(ctx context.Context) (*Guest, error) {
	dir := os.Getenv(EnvDir)
	if dir == "" {
		link, err := currentLink()
		if err != nil {
			return nil, err
		}
		if dir, err = os.Readlink(link); err != nil {
			return nil, ErrNone
		}
	}
	owned, err := cache.Owned(dir)
	if err != nil {
		return nil, fmt.Errorf("checking the owner of the cluster in %s: %w", dir, err)
	}
	if !owned {
		return nil, ErrNone
	}
	_, target, err := vm.Load(dir)
	if err != nil {
		return nil, err
	}
	client, err := channel.Connect(ctx, target)
	if err != nil {
		return nil, err
	}
	return &Guest{Client: client, dir: dir}, nil
}

func currentLink() (string, error) {
	store, err := cache.Default()
	if err != nil {
		return "", err
	}
	return store.Dir(runName, "current"), nil
}

// MakeCurrent makes this guest the one of Attach.
func (g *Guest) MakeCurrent() error {
	link, err := currentLink()
	if err != nil {
		return err
	}
	if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.Symlink(g.dir, link)
}

// stopGrace is the owner's time to end after SIGTERM.
const stopGrace = 15 * time.Second

// StopCurrent ends the guest of MakeCurrent, even a hung one. Without a guest it returns ErrNone.
func StopCurrent(ctx context.Context) error {
	link, err := currentLink()
	if err != nil {
		return err
	}
	dir, err := os.Readlink(link)
	if err != nil {
		return ErrNone
	}
	owned, err := cache.Owned(dir)
	if err != nil {
		return err
	}
	if !owned {
		return errors.Join(os.Remove(link), ErrNone)
	}
	state, _, err := vm.Load(dir)
	if err != nil {
		return err
	}
	return errors.Join(state.Owner.End(ctx, stopGrace), state.QEMU.End(ctx, stopGrace),
		os.Remove(link))
}
