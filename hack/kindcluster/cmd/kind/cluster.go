package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mooring-vm/mooring/hack/kindcluster"
	"github.com/mooring-vm/mooring/hack/kindcluster/guest"
	"github.com/mooring-vm/mooring/hack/kindcluster/nodeimage"
	"github.com/mooring-vm/mooring/hack/kindcluster/tools"
	"github.com/mooring-vm/mooring/hack/throwaway/cache"
	"github.com/mooring-vm/mooring/hack/throwaway/image"
)

// cluster is a running cluster.
type cluster struct {
	host       kindcluster.Host
	kubeconfig string
	// close ends what this process holds of the cluster.
	close func() error
	// env are variables for commands that use the cluster.
	env []string
}

// attach returns the running cluster.
func attach(ctx context.Context, o options) (*cluster, error) {
	if o.inNode {
		g, err := guest.Attach(ctx)
		if err != nil {
			return nil, err
		}
		return ofGuest(g), nil
	}
	return onMachine(ctx, o)
}

func ofGuest(g *guest.Guest) *cluster {
	return &cluster{host: g, kubeconfig: g.KubeconfigFile(), close: g.Stop,
		env: []string{guest.EnvDir + "=" + g.Dir()}}
}

// onMachine is the cluster of this machine's docker.
func onMachine(ctx context.Context, o options) (*cluster, error) {
	built, err := tools.Build(ctx, o.log)
	if err != nil {
		return nil, err
	}
	host := kindcluster.Machine{Kind: tools.Kind(built)}
	exists, err := kindcluster.Exists(ctx, host)
	if err != nil || !exists {
		return nil, errors.Join(err, built.Close(), guest.ErrNone)
	}
	file, err := writeKubeconfig(ctx, host)
	return &cluster{host: host, kubeconfig: file, close: built.Close}, err
}

func writeKubeconfig(ctx context.Context, host kindcluster.Host) (string, error) {
	text, err := kindcluster.Kubeconfig(ctx, host)
	if err != nil {
		return "", err
	}
	store, err := cache.Default()
	if err != nil {
		return "", err
	}
	file := store.Dir("kind-run", "docker.kubeconfig")
	return file, errors.Join(os.MkdirAll(filepath.Dir(file), 0o700),
		os.WriteFile(file, []byte(text), 0o600))
}

// createOnMachine makes a cluster on this machine's docker.
func createOnMachine(ctx context.Context, o options) (*cluster, error) {
	built, err := tools.Build(ctx, o.log)
	if err != nil {
		return nil, err
	}
	defer built.Close()
	host := kindcluster.Machine{Kind: tools.Kind(built)}
	config := kindcluster.Options{Image: o.image, Workers: o.workers}
	if o.workers < 0 {
		config.Workers = 2
	}
	if config.Image == "" {
		if config.Image, err = importOwnImage(ctx, o); err != nil {
			return nil, err
		}
		config.OwnNetwork = true
	}
	if err := kindcluster.Create(ctx, host, config); err != nil {
		return nil, fmt.Errorf("%w (`hack/kind down` removes what is left)", err)
	}
	return onMachine(ctx, o)
}

// importOwnImage builds the node image and imports it into this machine's docker.
func importOwnImage(ctx context.Context, o options) (string, error) {
	store, err := cache.Default()
	if err != nil {
		return "", err
	}
	b := nodeimage.Builder{Store: store, Log: o.log,
		Debian: image.NewBuilder(store, o.source, o.log)}
	img, err := b.Build(ctx)
	if err != nil {
		return "", err
	}
	defer img.Close()
	return img.Reference, kindcluster.Import(ctx, kindcluster.Machine{}, img.Archive,
		img.Reference, nodeimage.Changes())
}
