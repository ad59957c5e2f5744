// Package grants measures the time until the quota of a migration in a full namespace is raised. It
// compares mooring-controller with a program that only writes the quota, on the same control plane.
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

// Options are the parameters of a measurement.
type Options struct {
	Controller string // path of the program
	Manifest   string // install.yaml: CRD and webhooks
	Role       string // controller-role.yaml: rights of mode enforce
	Namespaces int
	VMs        int   // of each namespace
	Sizes      []int // numbers of simultaneous migrations: a multiple of Namespaces, or fewer
	Rounds     []int // number of rounds for each size
	Pairs      int   // single migrations in turns with pods
	Residents  int   // VMs at the end, for the controller's memory
	Quotas     int   // more namespaces with a quota at the very end, for the same
	Reviews    int   // requests to each webhook with these VMs
}

// Found contains the measurements: seconds by number of simultaneous migrations, and the mean cost
// of a migration.
type Found struct {
	Raw, Mooring     map[int][]float64
	Pods, Raises     []float64 // seconds of created pods, and of raises in turns with them
	Writes           float64   // to the API server, by migration
	Conflicts        float64   // the same
	Memory           float64   // bytes (RSS), beside Residents VMs
	MemoryQuotas     float64   // the same, beside more namespaces
	ResidentLaunched int

	Reviewed map[string][]float64 // seconds for a webhook's answer, by review
	Read     []float64            // seconds for a read from the API server at the same time
}

// testBed is a control plane with full namespaces.
type testBed struct {
	Options
	plane *kube.ControlPlane
	api   client.WithWatch
}

// Measure runs all measurements. It takes some minutes.
func Measure(ctx context.Context, o Options) (found Found, err error) {
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	plane, err := kube.Start(ctx, kube.Options{Log: log})
	if err != nil {
		return found, err
	}
	defer func() { err = errors.Join(err, plane.Stop()) }()
	b := &testBed{Options: o, plane: plane}
	if err := b.prepare(ctx, log); err != nil {
		return found, fmt.Errorf("preparing a control plane: %w", err)
	}
	if found.Raw, err = b.times(ctx, b.raw); err != nil {
		return found, fmt.Errorf("patching quotas without the controller: %w", err)
	}
	if err := b.measureController(ctx, &found); err != nil {
		return found, err
	}
	if err := b.measureReviews(ctx, &found); err != nil {
		return found, fmt.Errorf("calling webhooks: %w", err)
	}
	return found, nil
}

// prepare starts the programs of a KubeVirt cluster. It stops virt-controller, because it would
// make target pods and use the processors.
func (b *testBed) prepare(ctx context.Context, log *slog.Logger) error {
	if _, err := b.plane.StartControllersWith(ctx, busy(), "resourcequota-controller",
		"serviceaccount-controller"); err != nil {
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
	if err := errors.Join(kubevirtv1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err !=
		nil {
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

// busy returns the flags for a busy cluster. By default kube-controller-manager makes 20 calls a
// second, and takes 3.5 s to update status.hard of a hundred quotas.
func busy() []string {
	return []string{"--kube-api-qps=1000", "--kube-api-burst=2000",
		"--concurrent-resource-quota-syncs=20"}
}

// times measures all sizes after an uncounted round. That round opens connections and makes the
// controller the leader.
func (b *testBed) times(
	ctx context.Context, round func(context.Context, int) ([]float64, error),
) (map[int][]float64, error) {
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
