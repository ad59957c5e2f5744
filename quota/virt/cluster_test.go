package virt_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/mooring-vm/mooring/quota/virt"
)

func object(namespace, version string, ratio *string) *kubevirtv1.KubeVirt {
	o := &kubevirtv1.KubeVirt{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "kubevirt"}}
	o.Status.ObservedKubeVirtVersion = version
	o.Spec.Configuration.AdditionalGuestMemoryOverheadRatio = ratio
	return o
}

func newClient(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := kubevirtv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
}

func read(t *testing.T, objects ...client.Object) (virt.Cluster, error) {
	t.Helper()
	return virt.Read(t.Context(), newClient(t, objects...))
}

func TestRead(t *testing.T) {
	c, err := read(t, object("virt", "v1.7.0", new("1.5")))
	if err != nil {
		t.Fatal(err)
	}
	if c.Version.String() != "1.7.0" || c.Ratio.String() != "1.5" || c.Configuration == nil {
		t.Errorf("got %v, %v, %v", c.Version, c.Ratio, c.Configuration)
	}
	if want := "system:serviceaccount:virt:kubevirt-controller"; c.Controller() != want {
		t.Errorf("got %s, want %s", c.Controller(), want)
	}
}

func TestReadWhileInstalled(t *testing.T) {
	o := object("virt", "", nil)
	o.Status.TargetKubeVirtVersion = "v1.8.0"
	if c, err := read(t, o); err != nil || c.Version.String() != "1.8.0" {
		t.Errorf("got %v, %v", c.Version, err)
	}
}

func TestReadErrors(t *testing.T) {
	if _, err := read(t); !errors.Is(err, virt.ErrNoKubeVirt) {
		t.Errorf("got %v, want %v", err, virt.ErrNoKubeVirt)
	}
	for want, objects := range map[string][]client.Object{
		"2 objects of kind KubeVirt: one/kubevirt, two/kubevirt": {object("one", "v1.7.0", nil),
			object("two", "v1.7.0", nil)},
		"KubeVirt virt/kubevirt, status.targetKubeVirtVersion": {object("virt", "", nil)},
		"status.observedKubeVirtVersion":                       {object("virt", "soon", nil)},
		"spec.configuration.additionalGuestMemoryOverheadRatio: ": {
			object("virt", "v1.7.0", new("0.5"))},
	} {
		if _, err := read(t, objects...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t)
		read := virt.Cached(c, time.Minute)
		if _, err := read(t.Context()); !errors.Is(err, virt.ErrNoKubeVirt) {
			t.Fatalf("got %v, want %v", err, virt.ErrNoKubeVirt)
		}
		o := object("virt", "v1.7.0", nil)
		if err := c.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		wantVersion(t, read, "1.7.0") // the cache keeps no errors
		o.Status.ObservedKubeVirtVersion = "v1.8.0"
		if err := c.Update(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		wantVersion(t, read, "1.7.0")
		time.Sleep(time.Minute)
		wantVersion(t, read, "1.8.0")
	})
}

func wantVersion(t *testing.T, read func(context.Context) (virt.Cluster, error), want string) {
	t.Helper()
	if c, err := read(t.Context()); err != nil || c.Version.String() != want {
		t.Errorf("got %v, %v, want %s", c.Version, err, want)
	}
}
