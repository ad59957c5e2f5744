package quota

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	hackkubevirt "github.com/mooring-vm/mooring/hack/kubevirt"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/webhook"
)

// TestForgedReviews sends forged reviews in the name of the API server and of virt-controller. Any
// client that reaches the webhooks can do this. The forged sizes must not raise a quota.
func TestForgedReviews(t *testing.T) {
	c, _ := startGuarded(t)
	ns := c.Namespace(t, full())
	m, r := charged(t, c, ns)
	forged := targetOf(t, m)

	tooLarge := editedCopy(forged, func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceMemory] = resource.MustParse("1Ti")
	})
	withoutOwner := editedCopy(forged, func(p *corev1.Pod) { p.OwnerReferences = nil })
	otherMigration := editedCopy(forged, func(p *corev1.Pod) {
		p.Labels[kubevirtv1.MigrationJobLabel] = "another"
	})
	for _, pod := range []*corev1.Pod{tooLarge, withoutOwner, otherMigration} {
		got := review(t, c, ns, pod)
		if !got.Allowed {
			t.Errorf("refused: %+v", got.Result)
		}
		if pod != otherMigration && (len(got.Warnings) != 1 ||
			!strings.Contains(got.Warnings[0], "not recording the charge")) {
			t.Errorf("warnings %q: want one about the missing record", got.Warnings)
		}
	}
	if said := recordedTarget(t, c, ns); said != "" {
		t.Errorf("recorded: %s", said)
	}
	if got := review(t, c, ns, forged); !got.Allowed || len(got.Warnings) > 0 {
		t.Errorf("got %+v", got)
	}
	if recordedTarget(t, c, ns) == "" {
		t.Errorf("a target of the expected size was not recorded")
	}
	awaitHard(t, c, ns, kubevirttest.QuotaName, plus(full(), r))
	m.GoOn(t)
	m.Await(t, kubevirtv1.MigrationSucceeded)
}

// targetOf returns a pod like a migration's target, but a little larger.
func targetOf(t *testing.T, m *kubevirttest.Migration) *corev1.Pod {
	t.Helper()
	pod := copyOf(m.Target(t))
	pod.Namespace, pod.Status = "", corev1.PodStatus{}
	requests := pod.Spec.Containers[0].Resources.Requests
	memory := requests[corev1.ResourceMemory]
	memory.Add(resource.MustParse("1Mi"))
	requests[corev1.ResourceMemory] = memory
	if pod.Labels[kubevirtv1.MigrationJobLabel] != string(m.Get(t).UID) {
		t.Fatalf("the target has labels %v", pod.Labels)
	}
	return pod
}

func editedCopy(pod *corev1.Pod, change func(*corev1.Pod)) *corev1.Pod {
	out := pod.DeepCopy()
	change(out)
	return out
}

// recordedTarget returns the target's charge from the only reservation of a namespace, empty
// without one.
func recordedTarget(t *testing.T, c *kubevirttest.Cluster, ns string) string {
	t.Helper()
	all := reservations(t, c, ns)
	if len(all) != 1 {
		t.Fatalf("%d reservations: want one", len(all))
	}
	return all[0].Annotations[quota.TargetAnnotation]
}

// review sends the webhook a review of a pod from virt-controller.
func review(
	t *testing.T, c *kubevirttest.Cluster, ns string, pod *corev1.Pod,
) *admissionv1.AdmissionResponse {
	t.Helper()
	raw, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	ask := admissionv1.AdmissionReview{Request: &admissionv1.AdmissionRequest{
		UID: "forged", Operation: admissionv1.Create, Namespace: ns,
		Object: runtime.RawExtension{Raw: raw},
		UserInfo: authenticationv1.UserInfo{Username: "system:serviceaccount:" +
			hackkubevirt.Namespace + ":kubevirt-controller"},
	}}
	ask.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
	text, err := json.Marshal(ask)
	if err != nil {
		t.Fatal(err)
	}
	got := &admissionv1.AdmissionReview{}
	if err := post(t, launcherGuard(t, c), text, got); err != nil || got.Response == nil {
		t.Fatalf("got %+v, %v", got, err)
	}
	return got.Response
}

func launcherGuard(t *testing.T, c *kubevirttest.Cluster) registrationv1.WebhookClientConfig {
	t.Helper()
	all := &registrationv1.ValidatingWebhookConfiguration{}
	if err := c.Client.Get(t.Context(), client.ObjectKey{Name: webhook.ValidatingConfiguration},
		all); err != nil {
		t.Fatal(err)
	}
	for _, hook := range all.Webhooks {
		if hook.Name == "launchers.guard.mooring.dev" {
			return hook.ClientConfig
		}
	}
	t.Fatal("there is no guard of launchers")
	return registrationv1.WebhookClientConfig{}
}

// post sends a request without a client certificate, as any client can.
func post(t *testing.T, to registrationv1.WebhookClientConfig, text []byte, into any) error {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(to.CABundle) {
		return errors.New("no certificates in the bundle")
	}
	caller := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots,
		MinVersion: tls.VersionTLS13}}}
	defer caller.CloseIdleConnections()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, *to.URL,
		bytes.NewReader(text))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := caller.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the webhook says %s", response.Status)
	}
	return json.NewDecoder(response.Body).Decode(into)
}
