package quota

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/mooring-vm/mooring/hack/kube"
	"github.com/mooring-vm/mooring/integration/controllerprogram"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
	"github.com/mooring-vm/mooring/quota/webhook"
)

// startServing is start with the webhooks of install.yaml until t ends. The API server calls them
// by localhost, because the cluster has no Services.
func startServing(t *testing.T, args ...string) (*kubevirttest.Cluster, *program) {
	t.Helper()
	c := kubevirttest.Start(t)
	p := installServing(t, c)
	p.args = append(p.args, args...)
	p.start(t)
	eventually(t, "the API server to get the new bundle", func() error { return trusted(t, c) })
	return c, p
}

// installServing is install with webhooks.
func installServing(t *testing.T, c *kubevirttest.Cluster) *program {
	t.Helper()
	p := install(t, c, controllerprogram.Name)
	port, err := kube.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	p.webhooks = fmt.Sprintf("localhost:%d", port)
	applyWebhooks(t, c, "https://"+p.webhooks)
	p.args = append(p.args, fmt.Sprintf("--webhook-listen=127.0.0.1:%d", port),
		"--webhook-dns-name=localhost")
	return p
}

// manifests returns the documents of these kinds from a file of deploy/kubernetes.
func manifests(t *testing.T, file string, kinds ...string) []*unstructured.Unstructured {
	t.Helper()
	text, err := os.Open(filepath.Join("..", "..", "deploy", "kubernetes", file))
	if err != nil {
		t.Fatal(err)
	}
	defer text.Close()
	objects, err := kube.Decode(text)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool {
		return !slices.Contains(kinds, o.GetKind())
	})
}

// applyWebhooks registers the webhooks of install.yaml with another address.
func applyWebhooks(t *testing.T, c *kubevirttest.Cluster, base string) {
	t.Helper()
	all := manifests(t, "install.yaml", "ValidatingWebhookConfiguration",
		"MutatingWebhookConfiguration")
	if len(all) != 2 {
		t.Fatalf("install.yaml has %d webhook configurations, want 2", len(all))
	}
	for _, o := range all {
		if err := kube.ServeAt(base, o); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { remove(t, c, o) })
		apply(t, c, o)
	}
}

func apply(t *testing.T, c *kubevirttest.Cluster, o *unstructured.Unstructured) {
	t.Helper()
	text, err := yaml.Marshal(o.Object)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Plane.Apply(t.Context(), bytes.NewReader(text)); err != nil {
		t.Fatalf("applying %s %s: %v", o.GetKind(), o.GetName(), err)
	}
}

func remove(t *testing.T, c *kubevirttest.Cluster, o client.Object) {
	t.Helper()
	if err := c.Client.Delete(context.WithoutCancel(t.Context()), o); err != nil &&
		!apierrors.IsNotFound(err) {
		t.Errorf("removing %s: %v", o.GetName(), err)
	}
}

// trusted returns an error for each webhook without a caBundle.
func trusted(t *testing.T, c *kubevirttest.Cluster) error {
	t.Helper()
	var missing []error
	for name, bundle := range bundles(t, c) {
		if len(bundle) == 0 {
			missing = append(missing, errors.New(name+" has no caBundle"))
		}
	}
	return errors.Join(missing...)
}

// bundles returns the webhooks' caBundles by webhook name.
func bundles(t *testing.T, c *kubevirttest.Cluster) map[string][]byte {
	t.Helper()
	v, m := configurations(t, c)
	all := map[string][]byte{}
	for _, hook := range v.Webhooks {
		all[hook.Name] = hook.ClientConfig.CABundle
	}
	for _, hook := range m.Webhooks {
		all[hook.Name] = hook.ClientConfig.CABundle
	}
	return all
}

func configurations(
	t *testing.T, c *kubevirttest.Cluster,
) (*admissionv1.ValidatingWebhookConfiguration, *admissionv1.MutatingWebhookConfiguration) {
	t.Helper()
	v, m := &admissionv1.ValidatingWebhookConfiguration{},
		&admissionv1.MutatingWebhookConfiguration{}
	err := errors.Join(
		c.Client.Get(t.Context(), client.ObjectKey{Name: webhook.ValidatingConfiguration}, v),
		c.Client.Get(t.Context(), client.ObjectKey{Name: webhook.MutatingConfiguration}, m))
	if err != nil {
		t.Fatal(err)
	}
	return v, m
}
