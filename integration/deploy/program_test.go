package deploy

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/hack/kube"
	"github.com/mooring-vm/mooring/integration/controllerprogram"
)

// startController runs the controller in its own process with the chart's command line and rights.
// It returns when the controller is ready. The last of equal flags counts.
func (u *installation) startController(t *testing.T, more ...string) *kube.Process {
	t.Helper()
	kubeconfig, err := u.plane.Kubeconfig(t.Context(), system, "mooring-controller")
	if err != nil {
		t.Fatal(err)
	}
	port, err := kube.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	listen := fmt.Sprintf("127.0.0.1:%d", port)
	args := append([]string{controllerprogram.Name},
		u.controller(t).Spec.Template.Spec.Containers[0].Args...)
	args = append(args, "--kubeconfig="+kubeconfig, "--lease-namespace="+system, "--listen="+listen)
	args = append(args, more...)
	process, err := u.plane.Start(controllerprogram.Name, os.Args[0], args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = process.Stop() }) // for a test that fails early
	eventually(t, "the controller to be ready", func() error {
		_, err := kube.Get(t.Context(), "http://"+listen+"/readyz")
		return err
	})
	return process
}

func (u *installation) controller(t *testing.T) *appsv1.Deployment {
	t.Helper()
	d := &appsv1.Deployment{}
	if err := u.admin.Get(t.Context(), controllerKey(), d); err != nil {
		t.Fatal(err)
	}
	return d
}

func controllerKey() client.ObjectKey {
	return client.ObjectKey{Namespace: system, Name: "mooring-controller"}
}

// endWhenScaledDown acts for the Deployment controller and kubelet. It ends the program when its
// Deployment has no desired replica.
func (u *installation) endWhenScaledDown(ctx context.Context, process *kube.Process) error {
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, patience, true,
		func(ctx context.Context) (bool, error) {
			d := &appsv1.Deployment{}
			err := u.admin.Get(ctx, controllerKey(), d)
			return err == nil && *d.Spec.Replicas == 0, err
		})
	if err != nil {
		return fmt.Errorf("waiting for the Deployment to be scaled down: %w", err)
	}
	return process.Stop()
}
