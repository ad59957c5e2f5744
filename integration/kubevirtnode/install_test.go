package kubevirtnode

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var install struct {
	once sync.Once
	err  error
}

// requireMooring installs Mooring's chart, as a user does, at its first call.
func (c *cluster) requireMooring(t *testing.T) {
	t.Helper()
	install.once.Do(func() { install.err = c.install(context.WithoutCancel(t.Context())) })
	if install.err != nil {
		t.Fatalf("installing Mooring: %v", install.err)
	}
}

func (c *cluster) install(ctx context.Context) error {
	if err := c.makeSystem(ctx); err != nil {
		return err
	}
	return c.installChart(ctx, filepath.Join(top, "deploy/helm/mooring"), values()...)
}

// makeSystem makes Mooring's namespace.
func (c *cluster) makeSystem(ctx context.Context) error {
	err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system,
		Labels: map[string]string{"pod-security.kubernetes.io/enforce": "privileged"}}})
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}

// installChart installs a chart of Mooring with values, or upgrades to it, and returns when Mooring
// is ready.
func (c *cluster) installChart(ctx context.Context, chart string, values ...string) error {
	args := []string{"upgrade", "--install", "mooring", chart, "--namespace=" + system}
	if err := helm(ctx, append(args, values...)...); err != nil {
		return err
	}
	return c.awaitMooring(ctx)
}

// values are the chart's values.
func values() []string { return valuesOf(os.Getenv(envTag)) }

// valuesOf are the chart's values for images with this tag.
func valuesOf(tag string) []string {
	registry := os.Getenv(envRegistry)
	return []string{
		"--set=mode=enforce",
		"--set-file=agent.policy=" + filepath.Join(top, "deploy/policy/enforce.yaml"),
		"--set=images.registry=" + registry,
		"--set=images.agent.tag=" + tag, "--set=images.controller.tag=" + tag,
		"--set=webhooks.shimImage=" + registry + "/mooring-shim:" + tag,
		"--set=controller.replicas=1", "--set=podDisruptionBudget.enabled=false",
	}
}

// helm runs Helm without the user's configuration.
func helm(ctx context.Context, args ...string) error {
	home, err := os.MkdirTemp("", "mooring-helm-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	cmd := exec.CommandContext(ctx, "go", append([]string{"tool",
		"-modfile=" + filepath.Join(top, "tools", "go.mod"), "helm"}, args...)...)
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home,
		"HELM_DATA_HOME="+home)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("helm %s: %w\n%s", args[0], err, out.String())
	}
	return nil
}

// awaitMooring returns when agent, fence and controller are ready.
func (c *cluster) awaitMooring(ctx context.Context) error {
	return await(ctx, "Mooring to be ready", func(ctx context.Context) error {
		sets, deployments := &appsv1.DaemonSetList{}, &appsv1.DeploymentList{}
		if err := c.List(ctx, sets, client.InNamespace(system)); err != nil {
			return err
		}
		if err := c.List(ctx, deployments, client.InNamespace(system)); err != nil {
			return err
		}
		for _, s := range sets.Items {
			if s.Status.NumberReady < max(1, s.Status.DesiredNumberScheduled) {
				return fmt.Errorf("%s is not ready", s.Name)
			}
		}
		for _, d := range deployments.Items {
			if d.Status.ReadyReplicas == 0 {
				return fmt.Errorf("%s is not ready", d.Name)
			}
		}
		if len(sets.Items) == 0 || len(deployments.Items) == 0 {
			return fmt.Errorf("%d DaemonSets and %d Deployments", len(sets.Items),
				len(deployments.Items))
		}
		return nil
	})
}
