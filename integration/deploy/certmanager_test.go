package deploy

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// typed decodes an object of the chart.
func typed[T any](t *testing.T, o *unstructured.Unstructured) *T {
	t.Helper()
	if o == nil {
		t.Fatal("the object is missing")
	}
	object := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, object); err != nil {
		t.Fatal(err)
	}
	return object
}

// TestCertManager hands the certificates to cert-manager: the controller serves the mounted ones,
// and has no rights to make its own.
func TestCertManager(t *testing.T) {
	const key = "cert-manager.io/inject-ca-from"
	for _, on := range []bool{false, true} {
		var args []string
		if on {
			args = []string{"--set=webhooks.certManager.enabled=true"}
		}
		all := decode(t, render(t, args...))
		for name, want := range map[string]bool{"Issuer mooring-webhooks": on,
			"Certificate mooring-webhooks": on, "Secret mooring-webhook-certificates": !on} {
			if (all[name] != nil) != want {
				t.Errorf("cert-manager %t: %s there %t", on, name, all[name] != nil)
			}
		}
		for _, name := range configurations() {
			if _, injected := all[name].GetAnnotations()[key]; injected != on {
				t.Errorf("cert-manager %t: %s has annotations %v", on, name,
					all[name].GetAnnotations())
			}
		}
		var rules []rbacv1.PolicyRule
		cluster := typed[rbacv1.ClusterRole](t, all["ClusterRole mooring-controller"])
		rules = append(rules, cluster.Rules...)
		rules = append(rules, typed[rbacv1.Role](t, all["Role mooring-controller"]).Rules...)
		for _, resource := range []string{"secrets", "validatingwebhookconfigurations",
			"mutatingwebhookconfigurations"} {
			if may := slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool {
				return slices.Contains(r.Resources, resource)
			}); may == on {
				t.Errorf("cert-manager %t: rights on %s %t", on, resource, may)
			}
		}
	}
	checkMountedCertificate(t, decode(t, render(t, "--set=webhooks.certManager.enabled=true")))
	off := decode(t, render(t, "--set=webhooks.certManager.enabled=true,webhooks.enabled=false"))
	if off["Certificate mooring-webhooks"] != nil {
		t.Error("there is a certificate without webhooks")
	}
}

// checkMountedCertificate wants the controller to read the files of the certificate's Secret.
func checkMountedCertificate(t *testing.T, all map[string]*unstructured.Unstructured) {
	t.Helper()
	const dir = "/etc/mooring/webhook-certificates"
	certificate := all["Certificate mooring-webhooks"]
	secret, _, _ := unstructured.NestedString(certificate.Object, "spec", "secretName")
	names, _, _ := unstructured.NestedStringSlice(certificate.Object, "spec", "dnsNames")
	if diff := cmp.Diff([]string{"mooring-controller." + system + ".svc",
		"mooring-controller." + system}, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	pod := typed[appsv1.Deployment](t, all["Deployment mooring-controller"]).Spec.Template.Spec
	c := pod.Containers[0]
	if !slices.Contains(c.Args, "--webhook-cert-dir="+dir) || len(c.VolumeMounts) != 1 ||
		c.VolumeMounts[0].MountPath != dir || len(pod.Volumes) != 1 ||
		c.VolumeMounts[0].Name != pod.Volumes[0].Name ||
		pod.Volumes[0].Secret.SecretName != secret {
		t.Errorf("args %v, mounts %v, volumes %v, want Secret %s", c.Args, c.VolumeMounts,
			pod.Volumes, secret)
	}
}

// TestNetworkPolicies compares the open ports with those of the containers.
func TestNetworkPolicies(t *testing.T) {
	all := decode(t, render(t,
		"--set=networkPolicy.enabled=true,networkPolicy.apiServerPorts={8443}"))
	for name, kind := range map[string]string{"agent": "DaemonSet", "fence": "DaemonSet",
		"controller": "Deployment"} {
		policy := typed[networkingv1.NetworkPolicy](t, all["NetworkPolicy mooring-"+name]).Spec
		part := typed[appsv1.DaemonSet](t, all[kind+" mooring-"+name]).Spec // the same fields
		if diff := cmp.Diff(part.Selector.MatchLabels, policy.PodSelector.MatchLabels); diff != "" {
			t.Errorf("%s: pods (-want +got):\n%s", name, diff)
		}
		if len(policy.PolicyTypes) != 2 {
			t.Errorf("%s: types %v, want both", name, policy.PolicyTypes)
		}
		var open, served, called []string
		for _, rule := range policy.Ingress {
			for _, port := range rule.Ports {
				open = append(open, port.Port.String())
			}
		}
		for _, port := range part.Template.Spec.Containers[0].Ports {
			served = append(served, port.Name)
		}
		for _, rule := range policy.Egress {
			for _, port := range rule.Ports {
				called = append(called, port.Port.String())
			}
		}
		if diff := cmp.Diff(served, open); diff != "" {
			t.Errorf("%s: ports (-served +open):\n%s", name, diff)
		}
		want := map[bool][]string{false: {"8443"}}[name == "fence"]
		if !slices.Equal(called, want) {
			t.Errorf("%s: calls ports %v, want %v", name, called, want)
		}
	}
}
