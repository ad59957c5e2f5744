package deploy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/agent/doctor"
	"github.com/mooring-vm/mooring/cli"
	"github.com/mooring-vm/mooring/hack/kubevirt"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
)

// TestDoctorFindsSettings changes settings of KubeVirt and of the chart, and expects the doctor to
// find each of them, and no problem before.
func TestDoctorFindsSettings(t *testing.T) {
	_, c := startEnforcedVMs(t)
	setVersion(t, c) // virt-operator does not run
	awaitFindings(t, c, map[string]string{"kubevirt-version": "ok KubeVirt 1.",
		"kubevirt-account": "ok " + virtController, "kubevirt-headroom": "ok",
		"kubevirt-nodes": "ok", "kubevirt-overcommit": "ok", "kubevirt-bindings": "ok",
		"kubevirt-runtime-class": "ok", "kubevirt-plugin": "ok no Plugin"})

	c.Configure(t, `{"spec": {"configuration": {"vmRolloutStrategy": "Stage",
		"defaultRuntimeClass": "tuned", "network": {"binding": {"wide": {
			"computeResourceOverhead": {"requests": {"memory": "500Mi"}}}}}}}}`)
	installFor(t, c, "elsewhere")
	awaitFindings(t, c, map[string]string{
		"kubevirt-account": "problem " + virtController + ` lacks the verb "set" for ` +
			"launcherlabels and podannotations.mooring.dev",
		"kubevirt-headroom":      "note spec.configuration.vmRolloutStrategy: Stage",
		"kubevirt-bindings":      "note spec.configuration.network.binding.wide.",
		"kubevirt-runtime-class": "note spec.configuration.defaultRuntimeClass: tuned"})

	setStatus(t, c, kubevirtv1.KubeVirtStatus{})
	installFor(t, c, kubevirt.Namespace)
	awaitFindings(t, c, map[string]string{"kubevirt-version": "problem " +
		"status.observedKubeVirtVersion, status.targetKubeVirtVersion: none",
		"kubevirt-account": "ok " + virtController})
}

// installFor installs the chart for a KubeVirt of this namespace.
func installFor(t *testing.T, c *kubevirttest.Cluster, namespace string) {
	t.Helper()
	apply(t, c.Plane, render(t, append(enforce(), "--set=webhooks.enabled=false",
		fmt.Sprintf(`--set-json=annotations.setters=[{"kind":"ServiceAccount",`+
			`"name":"kubevirt-controller","namespace":%q}]`, namespace))...))
}

// setVersion writes the version of KubeVirt's programs into its object until t ends.
func setVersion(t *testing.T, c *kubevirttest.Cluster) {
	t.Helper()
	before := kubeVirtObject(t, c).Status
	t.Cleanup(func() { setStatus(t, c, before) })
	if err := c.KubeVirt.SetVersion(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// setStatus writes the versions of a status into KubeVirt's object.
func setStatus(t *testing.T, c *kubevirttest.Cluster, status kubevirtv1.KubeVirtStatus) {
	t.Helper()
	object := kubeVirtObject(t, c)
	object.Status.ObservedKubeVirtVersion = status.ObservedKubeVirtVersion
	object.Status.TargetKubeVirtVersion = status.TargetKubeVirtVersion
	if err := c.Client.Status().Update(context.WithoutCancel(t.Context()), object); err != nil {
		t.Fatal(err)
	}
}

func kubeVirtObject(t *testing.T, c *kubevirttest.Cluster) *kubevirtv1.KubeVirt {
	t.Helper()
	object := &kubevirtv1.KubeVirt{}
	key := client.ObjectKey{Namespace: kubevirt.Namespace, Name: kubevirt.Name}
	if err := c.Client.Get(context.WithoutCancel(t.Context()), key, object); err != nil {
		t.Fatal(err)
	}
	return object
}

// awaitFindings runs the doctor until its findings about KubeVirt start with these texts. The
// authorizer learns of changed roles later.
func awaitFindings(t *testing.T, c *kubevirttest.Cluster, want map[string]string) {
	t.Helper()
	kubeconfig, err := c.Plane.AdminKubeconfigFor(c.Plane.Config().Host)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the doctor's findings", func() error {
		var out, messages bytes.Buffer
		program := cli.Program{Name: "kubectl-mooring", Out: &out, ErrOut: &messages,
			Now: time.Now}
		program.Run(t.Context(), []string{"doctor", "--all-nodes", "-o", "json",
			"--kubeconfig=" + kubeconfig})
		var r struct{ KubeVirt []doctor.Finding }
		if err := json.Unmarshal(out.Bytes(), &r); err != nil {
			return fmt.Errorf("%w: %s%s", err, out.String(), messages.String())
		}
		got := map[string]string{}
		for _, f := range r.KubeVirt {
			got[f.Check] = string(f.Status) + " " + f.Found
		}
		for check, text := range want {
			if !strings.HasPrefix(got[check], text) {
				return fmt.Errorf("%s: got %q, want %q", check, got[check], text)
			}
		}
		return nil
	})
}
