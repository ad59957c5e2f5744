// Package kubevirttest gives tests a cluster of KubeVirt as far as the API server
// sees one: a real control plane that enforces quotas, the real virt-controller
// and virt-api, and an actor that stands in for the nodes.
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

// Controllers are those of kube-controller-manager that a Cluster runs.
func Controllers() []string {
	return []string{
		"resourcequota-controller", "serviceaccount-controller", "namespace-controller",
		"garbage-collector-controller", "disruption-controller",
	}
}

// Cluster is a control plane with KubeVirt. Tests that share one have a namespace
// each; what they do to a field here, they do to all.
type Cluster struct {
	Plane       *kube.ControlPlane
	Controllers *kube.Process
	KubeVirt    *kubevirt.KubeVirt
	// Client may do everything, knows KubeVirt's objects and caches nothing.
	Client client.Client

	stopActor func() error
}

// New starts a cluster of its own for who cannot share one, such as a program. ctx
// ends a build; the rest is over in seconds.
func New(ctx context.Context, log *slog.Logger) (_ *Cluster, err error) {
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
	if c.KubeVirt, err = kubevirt.Start(ctx, c.Plane, kubevirt.Options{Log: log}); err != nil {
		return nil, err
	}
	scheme, err := actor.Scheme()
	if err != nil {
		return nil, err
	}
	if c.Client, err = client.New(c.Plane.Config(), client.Options{Scheme: scheme}); err != nil {
		return nil, err
	}
	if err = actor.MakeNodes(ctx, c.Client); err != nil {
		return nil, err
	}
	c.startActor()
	return c, nil
}

func (c *Cluster) startActor() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	warnings := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	go func() { done <- actor.Run(ctx, c.Plane.Config(), warnings) }()
	c.stopActor = func() error {
		cancel()
		return <-done
	}
}

// Stop ends the cluster and removes all that it left. It may be called more than
// once.
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
