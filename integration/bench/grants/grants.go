// Package grants measures how long a migration in a full namespace waits until its quota
// is raised: by mooring-controller, and by a program that does nothing else than to write
// the quota, on the same control plane.
package grants

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	kubescheme "k8s.io/client-go/kubernetes/scheme"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/hack/kube"
	"github.com/mooring-vm/mooring/hack/kubevirt"
)

// Options say what is measured.
type Options struct {
	Controller string // the program
	Manifest   string // install.yaml: CRD and rights
	Webhooks   string // webhooks.yaml
	Namespaces int
	VMs        int   // of each namespace
	Sizes      []int // how many migrations begin at once: a multiple of Namespaces, or less than that
	Rounds     []int // how often, for each size
	Residents  int   // VMs in the end, for the controller's memory
	Reviews    int   // requests to each webhook, beside them
}

// Found is what was measured: seconds by how many migrations began at once, and what a
// migration costs on average.
type Found struct {
	Raw, Mooring     map[int][]float64
	Writes           float64 // to the API server, for a migration
	Conflicts        float64 // likewise
	Memory           float64 // bytes (RSS), beside Residents VMs
	ResidentLaunched int

	Reviewed map[string][]float64 // seconds for an answer of a webhook, by what was asked
	Read     []float64            // seconds for a read from the API server, meanwhile
}

// bed is a control plane with namespaces that are full.
type bed struct {
	Options
	plane *kube.ControlPlane
	api   client.WithWatch
}

// Measure measures. It takes some minutes.
func Measure(ctx context.Context, o Options) (found Found, err error) {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	plane, err := kube.Start(ctx, kube.Options{Log: log})
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	b := &bed{Options: o, plane: plane}
	if err := b.prepare(ctx, log); err != nil {
		return found, fmt.Errorf("preparing a control plane: %w", err)
	}
	if found.Raw, err = b.times(ctx, b.raw); err != nil {
		return found, fmt.Errorf("writing quotas alone: %w", err)
	}
	if err := b.measureController(ctx, &found); err != nil {
		return found, err
	}
	if err := b.measureReviews(ctx, &found); err != nil {
		return found, fmt.Errorf("asking webhooks: %w", err)
	}
	return found, nil
}

// prepare starts what a cluster with KubeVirt has. virt-controller is stopped: it would
// make target pods, and take the processors for it.
func (b *bed) prepare(ctx context.Context, log *slog.Logger) error {
	if _, err := b.plane.StartControllersWith(ctx, busy(), "resourcequota-controller", "serviceaccount-controller"); err != nil {
		return err
	}
	virt, err := kubevirt.Start(ctx, b.plane, kubevirt.Options{Log: log})
	if err != nil {
		return err
	}
	if err := virt.StopController(ctx); err != nil {
		return err
	}
	scheme := kubescheme.Scheme
	if err := errors.Join(kubevirtv1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	config := b.plane.Config()
	config.QPS = -1
	if b.api, err = client.NewWithWatch(config, client.Options{Scheme: scheme}); err != nil {
		return err
	}
	if err := b.install(ctx); err != nil {
		return err
	}
	return b.fill(ctx)
}

// busy are the flags of a cluster in which much happens. By default kube-controller-manager
// makes 20 calls a second, and status.hard of a hundred quotas follows within 3.5 s,
// whoever has raised them.
func busy() []string {
	return []string{"--kube-api-qps=1000", "--kube-api-burst=2000", "--concurrent-resource-quota-syncs=20"}
}

// times measures all sizes, after a round that does not count: connections are made, and
// the controller becomes the leader.
func (b *bed) times(ctx context.Context, round func(context.Context, int) ([]float64, error)) (map[int][]float64, error) {
	if _, err := round(ctx, 1); err != nil {
		return nil, err
	}
	found := map[int][]float64{}
	for i, size := range b.Sizes {
		for range b.Rounds[i] {
			took, err := round(ctx, size)
			if err != nil {
				return nil, fmt.Errorf("%d migrations: %w", size, err)
			}
			found[size] = append(found[size], took...)
		}
	}
	return found, nil
}
