package kubevirt

import (
	"context"
	"fmt"
	"os"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// installWebhooks makes the API server call virt-api at url, and no earlier one. KubeVirt's own
// configurations name a Service, which does not exist here.
func (k *KubeVirt) installWebhooks(ctx context.Context, url string, ca []byte) error {
	mutating, validating, err := k.webhooks()
	if err != nil {
		return fmt.Errorf("reading KubeVirt's webhooks: %w", err)
	}
	for i := range mutating.Webhooks {
		redirect(&mutating.Webhooks[i].ClientConfig, url, ca)
	}
	for i := range validating.Webhooks {
		redirect(&validating.Webhooks[i].ClientConfig, url, ca)
	}
	for _, o := range []client.Object{mutating, validating} {
		old := k.admin.Delete(ctx, o.DeepCopyObject().(client.Object))
		if err := client.IgnoreNotFound(old); err != nil {
			return fmt.Errorf("removing the webhooks of an earlier virt-api: %w", err)
		}
		if err := k.admin.Create(ctx, o); err != nil {
			return fmt.Errorf("installing KubeVirt's webhooks: %w", err)
		}
	}
	return nil
}

func redirect(c *admissionv1.WebhookClientConfig, url string, ca []byte) {
	c.URL = new(url + *c.Service.Path)
	c.Service, c.CABundle = nil, ca
}

func (k *KubeVirt) webhooks() (*admissionv1.MutatingWebhookConfiguration, *admissionv1.ValidatingWebhookConfiguration, error) {
	f, err := os.Open(k.file("webhooks.yaml"))
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	decoder := yaml.NewYAMLOrJSONDecoder(f, 4096)
	mutating := &admissionv1.MutatingWebhookConfiguration{}
	if err := decoder.Decode(mutating); err != nil {
		return nil, nil, err
	}
	validating := &admissionv1.ValidatingWebhookConfiguration{}
	if err := decoder.Decode(validating); err != nil {
		return nil, nil, err
	}
	return mutating, validating, nil
}
