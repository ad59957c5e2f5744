package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	virtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/hack/kubevirt"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
	"github.com/mooring-vm/mooring/integration/kubevirt/actor"
	"github.com/mooring-vm/mooring/quota/virt"
)

// standInLabel marks the objects that the suite installs in place of KubeVirt.
const standInLabel = "e2e.mooring.dev/stand-in"

// crds are KubeVirt's kinds that Mooring reads.
func crds() []string {
	return []string{"kubevirts.kubevirt.io", "virtualmachineinstances.kubevirt.io",
		"virtualmachineinstancemigrations.kubevirt.io"}
}

// kubeVirt returns a client for KubeVirt's kinds. The suite acts as KubeVirt's controllers, so the
// test skips in a cluster with KubeVirt. The first call installs the CRDs and a KubeVirt object.
func (c *cluster) kubeVirt(t *testing.T) client.Client {
	t.Helper()
	api, err := c.api()
	if err != nil {
		t.Fatal(err)
	}
	state, err := c.kubeVirtState(t.Context(), api)
	if err != nil {
		t.Fatal(err)
	}
	switch state {
	case kubeVirtReal:
		t.Skip("the cluster has KubeVirt, whose controllers this test stands in for")
	case kubeVirtStandIn, kubeVirtMissing:
		c.installStandIn(t, api)
	}
	return api
}

// api returns a client for the kinds of Kubernetes, KubeVirt and Mooring.
func (c *cluster) api() (client.Client, error) {
	scheme, err := actor.Scheme()
	if err != nil {
		return nil, err
	}
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	return client.New(c.config, client.Options{Scheme: scheme})
}

// virtController returns a client with all rights and the name of KubeVirt's controller. The
// webhooks accept target pods from this account only.
func (c *cluster) virtController(t *testing.T) kubernetes.Interface {
	t.Helper()
	config := rest.CopyConfig(c.config)
	config.Impersonate = rest.ImpersonationConfig{Groups: []string{"system:masters"},
		UserName: virt.Cluster{Namespace: kubevirt.Namespace}.Controller()}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

type kubeVirtState int

const (
	kubeVirtMissing kubeVirtState = iota
	kubeVirtStandIn
	kubeVirtReal
)

func (c *cluster) kubeVirtState(ctx context.Context, api client.Client) (kubeVirtState, error) {
	crd := newCRD(crds()[0])
	err := api.Get(ctx, client.ObjectKeyFromObject(crd), crd)
	switch {
	case apierrors.IsNotFound(err):
		return kubeVirtMissing, nil
	case err != nil:
		return 0, err
	case crd.GetLabels()[standInLabel] != "":
		return kubeVirtStandIn, nil
	}
	return kubeVirtReal, nil
}

func newCRD(name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{}
	o.SetAPIVersion("apiextensions.k8s.io/v1")
	o.SetKind("CustomResourceDefinition")
	o.SetName(name)
	return o
}

// installStandIn installs KubeVirt's own CRDs, and a KubeVirt object with a version. It may be
// called again.
func (c *cluster) installStandIn(t *testing.T, api client.Client) {
	t.Helper()
	built, err := kubevirt.Build(t.Context(), slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer built.Close()
	all, err := readCRDs(filepath.Join(built.Dir, "crds.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != len(crds()) {
		t.Fatalf("found %d CRDs of %v", len(all), crds())
	}
	for _, crd := range all {
		crd.SetLabels(map[string]string{standInLabel: "true"})
		c.createObject(t, api, crd)
	}
	if err := c.makeNamespace(t.Context(), kubevirt.Namespace, ""); err != nil {
		t.Fatal(err)
	}
	object := &virtv1.KubeVirt{ObjectMeta: metav1.ObjectMeta{Namespace: kubevirt.Namespace,
		Name: kubevirt.Name}}
	c.createObject(t, api, object)
	eventually(t, "KubeVirt's status", func(ctx context.Context) error {
		if err := api.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		object.Status = virtv1.KubeVirtStatus{Phase: virtv1.KubeVirtPhaseDeployed,
			TargetKubeVirtVersion: "v1.7.0", ObservedKubeVirtVersion: "v1.7.0",
			DefaultArchitecture: "amd64"}
		return api.Status().Update(ctx, object)
	})
}

// createObject creates an object unless it exists. It retries until the API server serves the kind.
func (c *cluster) createObject(t *testing.T, api client.Client, o client.Object) {
	t.Helper()
	eventually(t, "creating "+o.GetName(), func(ctx context.Context) error {
		return client.IgnoreAlreadyExists(api.Create(ctx, o))
	})
}

func readCRDs(file string) ([]*unstructured.Unstructured, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var all []*unstructured.Unstructured
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		o := &unstructured.Unstructured{}
		if err := documents.Decode(o); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if slices.Contains(crds(), o.GetName()) {
			all = append(all, o)
		}
	}
}

// removeKubeVirt removes the stand-in of KubeVirt with all its objects.
func (c *cluster) removeKubeVirt(ctx context.Context) error {
	api, err := c.api()
	if err != nil {
		return err
	}
	state, err := c.kubeVirtState(ctx, api)
	if err != nil || state != kubeVirtStandIn {
		return err
	}
	var errs []error
	for _, name := range crds() {
		errs = append(errs, client.IgnoreNotFound(api.Delete(ctx, newCRD(name))))
	}
	return errors.Join(append(errs, c.deleteNamespace(ctx, kubevirt.Namespace))...)
}

// runningVMI makes a VMI of the suite's namespace that is running, without a launcher.
func (c *cluster) runningVMI(
	t *testing.T, api client.Client, namespace, name string, annotations map[string]string,
) *virtv1.VirtualMachineInstance {
	t.Helper()
	vmi := kubevirttest.NewVMI(namespace, name, kubevirttest.Size{Cores: 1, Memory: "64Mi"})
	vmi.Annotations = annotations
	vmi.Status.Phase = virtv1.Running
	c.createObject(t, api, vmi)
	t.Cleanup(func() {
		if err := api.Delete(context.WithoutCancel(t.Context()), vmi); err != nil {
			t.Error(err)
		}
	})
	return vmi
}

// launcherOf is a launcher as virt-controller makes it, with the VMI's annotations and the suite's
// program.
func launcherOf(vmi *virtv1.VirtualMachineInstance, name string) *corev1.Pod {
	pod := launcher(name, nil)
	pod.Namespace, pod.Annotations = vmi.Namespace, maps.Clone(vmi.Annotations)
	pod.Labels = map[string]string{virtv1.AppLabel: "virt-launcher",
		virtv1.CreatedByLabel: string(vmi.UID)}
	pod.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(vmi, virtv1.VirtualMachineInstanceGroupVersionKind)}
	return pod
}
