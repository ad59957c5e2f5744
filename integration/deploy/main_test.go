// Package deploy tests the chart with Helm, and the resulting objects on a real kube-apiserver.
package deploy

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/hack/kube"
	"github.com/mooring-vm/mooring/integration/controllerprogram"
	kubetest "github.com/mooring-vm/mooring/integration/kube"
	"github.com/mooring-vm/mooring/integration/kubevirt/actor"
)

const (
	chart  = "../../deploy/helm/mooring"
	system = "mooring-system"
	// registry is the registry in deploy/kubernetes/install.yaml.
	registry = "registry.example.com/mooring"
)

// patience is the deadline of one wait. It is long because the machine may be busy, and measures no
// performance.
const patience = 3 * time.Minute

func TestMain(m *testing.M) {
	controllerprogram.Main()
	code := kubetest.Main(m)
	if err := stopKubeVirt(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping KubeVirt:", err)
		code = 1
	}
	os.Exit(code)
}

// helm runs Helm without the user's configuration and returns its output. Charts get a registry,
// unless the arguments name another. The first compilation takes minutes.
func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	home := t.TempDir()
	if slices.Contains([]string{"install", "lint", "template", "upgrade"}, args[0]) {
		args = slices.Insert(slices.Clone(args), 1, "--set=images.registry="+registry)
	}
	cmd := exec.CommandContext(t.Context(), "go",
		append([]string{"tool", "-modfile=../../tools/go.mod", "helm"}, args...)...)
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home,
		"HELM_DATA_HOME="+home)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	if err != nil {
		out.Write(said.Bytes())
	}
	return out.String(), err
}

// render returns the rendered chart with these values, including a namespace.
func render(t *testing.T, args ...string) string {
	t.Helper()
	out, err := helm(t, append([]string{"template", "mooring", chart, "--skip-tests",
		"--namespace=" + system, "--set=namespace.create=true"}, args...)...)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return out
}

// apply applies a manifest as `kubectl apply --server-side` does.
func apply(t *testing.T, plane *kube.ControlPlane, manifest string) []*unstructured.Unstructured {
	t.Helper()
	objects, err := plane.Apply(t.Context(), strings.NewReader(manifest))
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSpace(text))
}

// clientFor returns a client for the types of Kubernetes, Mooring and KubeVirt.
func clientFor(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	known, err := actor.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	if err := v1alpha1.AddToScheme(known); err != nil {
		t.Fatal(err)
	}
	config = rest.CopyConfig(config)
	config.QPS = -1
	c, err := client.New(config, client.Options{Scheme: known})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func eventually(t *testing.T, what string, done func() error) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, patience, true,
		func(context.Context) (bool, error) {
			last = done()
			return last == nil, nil
		})
	if err != nil {
		t.Fatalf("waiting for %s: %v", what, last)
	}
}
