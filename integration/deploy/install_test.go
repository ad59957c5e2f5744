package deploy

import (
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubetest "github.com/mooring-vm/mooring/integration/kube"
)

// TestInstallIsAccepted applies the committed manifest, and the chart over it as an upgrade.
func TestInstallIsAccepted(t *testing.T) {
	plane := kubetest.Start(t)
	manifest := read(t, "../../deploy/kubernetes/install.yaml")
	if n := len(apply(t, plane, manifest)); n < 20 {
		t.Errorf("%d objects", n)
	}
	apply(t, plane, manifest)
	apply(t, plane, read(t, "../../deploy/kubernetes/agent-role.yaml"))
	apply(t, plane, read(t, "../../deploy/kubernetes/controller-role.yaml"))
	apply(t, plane, render(t, "--set=networkPolicy.enabled=true"))
	apply(t, plane,
		render(t, "--set=agent.enabled=false,fence.enabled=false,nodeCleanup.enabled=true"))
}

// TestControllerIsRestricted creates the controller's and the uninstall's pods in a namespace with
// the pod security standard "restricted".
func TestControllerIsRestricted(t *testing.T) {
	plane := kubetest.Start(t)
	admin := clientFor(t, plane.Config())
	apply(t, plane, render(t))
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name:   "restricted",
		Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
	}}
	objects := []client.Object{ns}
	for _, name := range []string{"mooring-controller", "mooring-uninstall"} {
		objects = append(objects,
			&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: name}})
	}
	for _, o := range objects {
		if err := admin.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	var deployment appsv1.Deployment
	var job batchv1.Job
	for name, o := range map[string]client.Object{"mooring-controller": &deployment,
		"mooring-uninstall": &job} {
		if err := admin.Get(t.Context(), client.ObjectKey{Namespace: system, Name: name},
			o); err != nil {
			t.Fatal(err)
		}
	}
	for name, spec := range map[string]corev1.PodSpec{"controller": deployment.Spec.Template.Spec,
		"uninstall": job.Spec.Template.Spec} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: name},
			Spec: spec}
		if err := admin.Create(t.Context(), pod, client.DryRunAll); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	privileged := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "other"},
		Spec: corev1.PodSpec{ServiceAccountName: "mooring-controller",
			Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	if err := admin.Create(t.Context(), privileged, client.DryRunAll); err == nil {
		t.Error("the namespace accepts any pod, so the test proves nothing")
	}
}

// TestReapplyKeepsWhatTheControllerFillsIn upgrades the release. The certificates and the webhooks'
// caBundles stay.
func TestReapplyKeepsWhatTheControllerFillsIn(t *testing.T) {
	plane := kubetest.Start(t)
	admin := clientFor(t, plane.Config())
	apply(t, plane, render(t))
	guard := &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "mooring-guard"}}
	patch := client.RawPatch(types.JSONPatchType,
		[]byte(`[{"op":"add","path":"/webhooks/0/clientConfig/caBundle","value":"Y2E="}]`))
	if err := admin.Patch(t.Context(), guard, patch); err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: system,
		Name: "mooring-webhook-certificates"}}
	patch = client.RawPatch(types.MergePatchType,
		[]byte(`{"stringData":{"tls.crt":"certificate"}}`))
	if err := admin.Patch(t.Context(), secret, patch); err != nil {
		t.Fatal(err)
	}
	apply(t, plane, render(t, "--set=webhooks.timeoutSeconds=7"))
	for _, o := range []client.Object{guard, secret} {
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			t.Fatal(err)
		}
	}
	if w := guard.Webhooks[0]; *w.TimeoutSeconds != 7 || string(w.ClientConfig.CABundle) != "ca" {
		t.Errorf("time-out %d, caBundle %q", *w.TimeoutSeconds, w.ClientConfig.CABundle)
	}
	if string(secret.Data["tls.crt"]) != "certificate" {
		t.Errorf("the Secret has %v", secret.Data)
	}
}
