// Package kubevirttest gives tests a KubeVirt cluster without real nodes: a real control plane with
// quotas, the real virt-controller and virt-api, and an actor in place of the nodes.
package kubevirttest

import (
	"context"
	"errors"
	"log/slog"
	"os"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/hack/kube"
	"github.com/mooring-vm/mooring/hack/kubevirt"
	"github.com/mooring-vm/mooring/integration/kubevirt/actor"
)

// Controllers returns the controllers of kube-controller-manager run by a Cluster.
func Controllers() []string {
	return []string{
		"resourcequota-controller", "serviceaccount-controller", "namespace-controller",
		"garbage-collector-controller", "disruption-controller",
	}
}

// Cluster is a control plane with KubeVirt. Each test uses its own namespace. A changed field
// affects all tests of the cluster.
type Cluster struct {
	Plane       *kube.ControlPlane
	Controllers *kube.Process
	KubeVirt    *kubevirt.KubeVirt
	// Client has all rights, knows KubeVirt's types and does not cache.
	Client client.Client

	stopActor func() error
}

// New starts a separate cluster, for example for a program. ctx ends a build. The other steps take
// seconds.
func New(ctx context.Context, log *slog.Logger) (*Cluster, error) {
	c, err := NewWithoutKubeVirt(ctx, log)
	if err != nil {
		return nil, err
	}
	if err := c.InstallKubeVirt(ctx, log); err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return c, nil
}

// NewWithoutKubeVirt starts a separate cluster that does not serve KubeVirt's kinds.
func NewWithoutKubeVirt(ctx context.Context, log *slog.Logger) (_ *Cluster, err error) {
	c := &Cluster{}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Stop())
		}
	}()
	if c.Plane, err = kube.Start(ctx, kube.Options{Log: log}); err != nil {
		return nil, err
	}
	if c.Controllers, err = c.Plane.StartControllers(ctx, Controllers()...); err != nil {
		return nil, err
	}
	scheme, err := actor.Scheme()
	if err != nil {
		return nil, err
	}
	c.Client, err = client.New(c.Plane.Config(), client.Options{Scheme: scheme})
	return c, err
}

// InstallKubeVirt installs KubeVirt in a cluster of [NewWithoutKubeVirt], and starts its programs.
func (c *Cluster) InstallKubeVirt(ctx context.Context, log *slog.Logger) (err error) {
	if c.KubeVirt, err = kubevirt.Start(ctx, c.Plane, kubevirt.Options{Log: log}); err != nil {
		return err
	}
	if err := actor.MakeNodes(ctx, c.Client, actor.NodeNames()...); err != nil {
		return err
	}
	c.startActor()
	return nil
}

func (c *Cluster) startActor() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	o := actor.Options{Nodes: actor.NodeNames(), Alone: true,
		Log: slog.New(slog.NewTextHandler(os.Stderr,
			&slog.HandlerOptions{Level: slog.LevelWarn}))}
	go func() { done <- actor.Run(ctx, c.Plane.Config(), o) }()
	c.stopActor = func() error {
		cancel()
		return <-done
	}
}

// Stop ends the cluster and removes its files. Repeated calls are allowed.
func (c *Cluster) Stop() error {
	var errs []error
	if c.stopActor != nil {
		errs = append(errs, c.stopActor())
	}
	if c.KubeVirt != nil {
		errs = append(errs, c.KubeVirt.Stop())
	}
	if c.Plane != nil {
		errs = append(errs, c.Plane.Stop())
	}
	*c = Cluster{}
	return errors.Join(errs...)
}

func logger() *slog.Logger { return slog.New(slog.NewTextHandler(os.Stderr, nil)) }
