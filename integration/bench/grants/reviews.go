package grants

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/hack/kube"
	"github.com/mooring-vm/mooring/hack/kubevirt"
	"github.com/mooring-vm/mooring/quota/webhook"
)

// LauncherAnnotations names the review that delays every launcher.
const LauncherAnnotations = "a migration target's annotations"

// review is a request of the API server to a webhook.
type review struct {
	name              string
	path              string
	kind              string
	resource          string
	object, oldObject client.Object // oldObject is nil for a creation
}

// measureReviews runs mooring-controller with its webhooks. It calls them like the API server: one
// request after the other over a persistent TLS connection.
func (b *testBed) measureReviews(ctx context.Context, found *Found) (err error) {
	port, err := kube.FreePort()
	if err != nil {
		return err
	}
	url := fmt.Sprintf("https://localhost:%d", port)
	if err := b.register(ctx, url); err != nil {
		return err
	}
	c, err := b.startController(ctx, fmt.Sprintf("--webhook-listen=127.0.0.1:%d", port),
		"--webhook-dns-name=localhost")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.process.Stop()) }()
	httpClient, err := b.webhookClient(ctx)
	if err != nil {
		return err
	}
	all, err := b.reviews(ctx)
	if err != nil {
		return err
	}
	found.Reviewed = map[string][]float64{}
	for i := range b.Reviews + 1 {
		// the first round connects
		if err := b.reviewOnce(ctx, httpClient, url, all, found, i > 0); err != nil {
			return err
		}
	}
	return nil
}

// reviewOnce calls each webhook once and reads one object, in random order.
func (b *testBed) reviewOnce(
	ctx context.Context, httpClient *http.Client, url string, all []review, found *Found,
	record bool,
) error {
	for _, i := range rand.Perm(len(all) + 1) {
		start := time.Now()
		if i == len(all) {
			if err := b.api.Get(ctx, client.ObjectKey{Name: space(0)}, &corev1.Namespace{}); err !=
				nil {
				return err
			}
			if record {
				found.Read = append(found.Read, time.Since(start).Seconds())
			}
			continue
		}
		if err := callWebhook(ctx, httpClient, url, all[i]); err != nil {
			return fmt.Errorf("%s: %w", all[i].name, err)
		}
		if record {
			found.Reviewed[all[i].name] = append(found.Reviewed[all[i].name],
				time.Since(start).Seconds())
		}
	}
	return nil
}

// register creates the webhook configurations, so that the controller writes its CA bundle there.
func (b *testBed) register(ctx context.Context, url string) error {
	objects, err := manifests(b.Manifest, "ValidatingWebhookConfiguration",
		"MutatingWebhookConfiguration")
	if err != nil {
		return err
	}
	for _, o := range objects {
		if err := kube.ServeAt(url, o); err != nil {
			return err
		}
		if err := b.apply(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// webhookClient returns a client that trusts the CA bundle of the configurations.
func (b *testBed) webhookClient(ctx context.Context) (*http.Client, error) {
	roots := x509.NewCertPool()
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) {
			hooks := &registrationv1.MutatingWebhookConfiguration{}
			if err := b.api.Get(ctx, client.ObjectKey{Name: webhook.MutatingConfiguration},
				hooks); err != nil {
				return false, err
			}
			return roots.AppendCertsFromPEM(hooks.Webhooks[0].ClientConfig.CABundle), nil
		})
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots,
		MinVersion: tls.VersionTLS13}}}, err
}

// reviews returns requests for which the webhooks read from the cluster.
func (b *testBed) reviews(ctx context.Context) ([]review, error) {
	kv := &kubevirtv1.KubeVirt{ObjectMeta: metav1.ObjectMeta{Namespace: kubevirt.Namespace,
		Name: kubevirt.Name}}
	version := client.RawPatch(types.MergePatchType,
		[]byte(`{"status": {"observedKubeVirtVersion": "v1.7.0"}}`))
	vmi, launcher := &kubevirtv1.VirtualMachineInstance{}, &corev1.Pod{}
	quota, namespace := &corev1.ResourceQuota{}, &corev1.Namespace{}
	err := errors.Join(
		b.api.Status().Patch(ctx, kv, version),
		b.api.Get(ctx, client.ObjectKey{Namespace: space(0), Name: vm(0)}, vmi),
		b.api.Get(ctx, client.ObjectKey{Namespace: space(0), Name: "virt-launcher-" + vm(0)},
			launcher),
		b.api.Get(ctx, client.ObjectKey{Namespace: space(0), Name: quotaName}, quota),
		b.api.Get(ctx, client.ObjectKey{Name: space(0)}, namespace))
	if err != nil {
		return nil, err
	}
	target := launcher.DeepCopy()
	target.Labels[kubevirtv1.MigrationJobLabel] = "migration"
	raised, shared := quota.DeepCopy(), namespace.DeepCopy()
	raised.Spec.Hard = hard(b.VMs + 1)
	shared.Annotations = map[string]string{
		"harvesterhci.io/maintenanceQuota": `{"limitsCpuPercent": 10}`}
	another := &kubevirtv1.VirtualMachine{ObjectMeta: metav1.ObjectMeta{Namespace: space(0),
		Name: "another"}}
	another.Spec.RunStrategy = new(kubevirtv1.RunStrategyAlways)
	another.Spec.Template = &kubevirtv1.VirtualMachineInstanceTemplateSpec{Spec: vmi.Spec}
	return []review{
		{LauncherAnnotations, "/mutate-launcher", "Pod", "pods", target, nil},
		{"a launcher, checked against reservations", "/validate-launcher", "Pod", "pods", launcher,
			nil},
		{"a VM, checked against the free quota", "/validate-virtualmachine", "VirtualMachine",
			"virtualmachines", another, nil},
		{"an edit of a ResourceQuota", "/validate-resourcequota", "ResourceQuota", "resourcequotas",
			raised, quota},
		{"an edit of a namespace's share", "/validate-namespace", "Namespace", "namespaces",
			shared, namespace},
	}, nil
}

// callWebhook calls a webhook once. An answer without a decision is an error, a refusal is not.
func callWebhook(ctx context.Context, httpClient *http.Client, url string, r review) error {
	body, err := r.body()
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url+r.path,
		bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := httpClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	answer := admissionv1.AdmissionReview{}
	if err := json.Unmarshal(text, &answer); err != nil {
		return fmt.Errorf("%s: %w: %s", response.Status, err, text)
	}
	if answer.Response == nil || len(answer.Response.Warnings) > 0 {
		return fmt.Errorf("%s: no decision, or warnings: %s", response.Status, text)
	}
	return nil
}

func (r review) body() ([]byte, error) {
	request := &admissionv1.AdmissionRequest{
		UID: "review", Kind: metav1.GroupVersionKind{Version: "v1", Kind: r.kind},
		Resource:  metav1.GroupVersionResource{Version: "v1", Resource: r.resource},
		Namespace: cmp.Or(r.object.GetNamespace(), r.object.GetName()), Name: r.object.GetName(),
		Operation: admissionv1.Create,
	}
	request.UserInfo.Username = "benchmark"
	request.Object = runtime.RawExtension{Object: r.object}
	if r.oldObject != nil {
		request.Operation, request.OldObject = admissionv1.Update,
			runtime.RawExtension{Object: r.oldObject}
	}
	return json.Marshal(admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(),
			Kind: "AdmissionReview"}, Request: request,
	})
}
