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

// attach returns the running cluster: that of a throw-away node, or else of this machine's docker.
func attach(ctx context.Context, o options) (*cluster, error) {
	g, err := guest.Attach(ctx)
	switch {
	case err == nil:
		return ofGuest(g), nil
	case o.inNode || !errors.Is(err, guest.ErrNone):
		return nil, err
	}
	return onMachine(ctx, o)
}

func ofGuest(g *guest.Guest) *cluster {
	return &cluster{host: g, kubeconfig: g.KubeconfigFile(), close: g.Stop,
		env: []string{guest.EnvDir + "=" + g.Dir()}}
}

// onMachine is the cluster of this machine's docker.
func onMachine(ctx context.Context, o options) (*cluster, error) {
	host, built, err := machine(ctx, o)
	if err != nil {
		return nil, err
	}
	exists, err := kindcluster.Exists(ctx, host)
	if err != nil || !exists {
		return nil, errors.Join(err, built.Close(), guest.ErrNone)
	}
	return &cluster{host: host, kubeconfig: host.Kubeconfig, close: built.Close}, nil
}

// machine is this machine with a kind of its own, which writes a kubeconfig of its own.
func machine(ctx context.Context, o options) (host kindcluster.Machine, _ *cache.Entry, err error) {
	store, err := cache.Default()
	if err != nil {
		return host, nil, err
	}
	host.Kubeconfig = store.Dir("kind-run", "docker.kubeconfig")
	if err := os.MkdirAll(filepath.Dir(host.Kubeconfig), 0o700); err != nil {
		return host, nil, err
	}
	built, err := tools.Build(ctx, o.log)
	if err != nil {
		return host, nil, err
	}
	host.Kind = tools.Kind(built)
	return host, built, nil
}

// createOnMachine makes a cluster on this machine's docker.
func createOnMachine(ctx context.Context, o options) (*cluster, error) {
	host, built, err := machine(ctx, o)
	if err != nil {
		return nil, err
	}
	defer built.Close()
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

// importOwnImage builds the node image and imports it into this machine's docker, under a name that
// no registry has.
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
	reference := "mooring.invalid/kind-node:" + string(img.Key)
	return reference, kindcluster.Import(ctx, kindcluster.Machine{}, img.Archive, reference,
		nodeimage.Changes())
}
