package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/mooring-vm/mooring/hack/kube"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
)

// cluster is a control plane of this machine with KubeVirt's virt-api and virt-controller. It
// starts in the background, because its programs may have to be built first.
type cluster struct {
	*kubevirttest.Cluster
	started chan struct{} // closed after Cluster or err is set
	err     error
	cancel  context.CancelFunc
}

// startCluster begins to build and start a cluster, and returns at once.
func startCluster(ctx context.Context) *cluster {
	ctx, cancel := context.WithCancel(ctx)
	c := &cluster{started: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(c.started)
		if c.err = buildPrograms(ctx); c.err == nil {
			c.Cluster, c.err = kubevirttest.New(ctx, slog.New(slog.DiscardHandler))
		}
	}()
	return c
}

// buildPrograms builds Kubernetes and KubeVirt where they are not cached. The node comes first:
// the build only gets otherwise idle processor time.
func buildPrograms(ctx context.Context) error {
	build := exec.CommandContext(ctx, "nice", "-n", "19", "make", "--no-print-directory",
		"kubernetes", "kubevirt-programs")
	build.Cancel = func() error { return build.Process.Signal(syscall.SIGTERM) }
	build.WaitDelay = 10 * time.Second
	build.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "MAKE")
	})
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building Kubernetes and KubeVirt: %w\n%s", err, out)
	}
	return nil
}

// await blocks until the cluster has started.
func (c *cluster) await(ctx context.Context) error {
	select {
	case <-c.started:
		return c.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stop ends the cluster, or its start.
func (c *cluster) stop() error {
	c.cancel()
	<-c.started
	if c.Cluster == nil {
		return nil
	}
	return c.Stop()
}

// controllerNamespace is the namespace of mooring-controller in install.yaml.
const controllerNamespace = "mooring-system"

// startController installs mooring-controller with the roles of deploy/kubernetes,
// and returns when it is ready.
func (c *cluster) startController(ctx context.Context) error {
	if err := c.applyRoles(ctx); err != nil {
		return err
	}
	kubeconfig, err := c.Plane.Kubeconfig(ctx, controllerNamespace, "mooring-controller")
	if err != nil {
		return err
	}
	port, err := kube.FreePort()
	if err != nil {
		return err
	}
	program, err := filepath.Abs("bin/mooring-controller")
	if err != nil {
		return err
	}
	listen := fmt.Sprintf("127.0.0.1:%d", port)
	_, err = c.Plane.Start("mooring-controller", program,
		"--mode=enforce", "--kubeconfig="+kubeconfig,
		"--lease-namespace="+controllerNamespace, "--listen="+listen)
	if err != nil {
		return err
	}
	return poll(ctx, func(ctx context.Context) (bool, error) {
		_, err := kube.Get(ctx, "http://"+listen+"/readyz")
		return err == nil, nil
	})
}

// applyRoles applies the controller's CRD and its roles of mode enforce, but not the controller.
func (c *cluster) applyRoles(ctx context.Context) error {
	var objects []*unstructured.Unstructured
	for _, file := range []string{"install.yaml", "controller-role.yaml"} {
		text, err := os.ReadFile(filepath.Join("deploy", "kubernetes", file))
		if err != nil {
			return err
		}
		some, err := kube.Decode(bytes.NewReader(text))
		if err != nil {
			return err
		}
		objects = append(objects, some...)
	}
	kinds := []string{
		"Namespace", "CustomResourceDefinition", "ServiceAccount", "ClusterRole",
		"ClusterRoleBinding", "Role", "RoleBinding", "Secret",
	}
	for _, o := range objects {
		if !slices.Contains(kinds, o.GetKind()) {
			continue
		}
		manifest, err := json.Marshal(o)
		if err != nil {
			return err
		}
		if _, err := c.Plane.Apply(ctx, bytes.NewReader(manifest)); err != nil {
			return err
		}
	}
	return nil
}
