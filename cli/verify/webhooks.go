package verify

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/mooring-vm/mooring/quota/webhook"
)

// checkWebhooks sends a request to each webhook as the API server does: to the cluster IP of its
// Service, without DNS, and with its caBundle.
func (c *Cluster) checkWebhooks(ctx context.Context) error {
	registration := c.Client.AdmissionregistrationV1()
	validating, err := registration.ValidatingWebhookConfigurations().Get(ctx,
		webhook.ValidatingConfiguration, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read ValidatingWebhookConfiguration: %w", err)
	}
	mutating, err := registration.MutatingWebhookConfigurations().Get(ctx,
		webhook.MutatingConfiguration, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read MutatingWebhookConfiguration: %w", err)
	}
	for _, hook := range validating.Webhooks {
		if err := c.call(ctx, hook.ClientConfig); err != nil {
			return fmt.Errorf("%s: %w", hook.Name, err)
		}
	}
	for _, hook := range mutating.Webhooks {
		if err := c.call(ctx, hook.ClientConfig); err != nil {
			return fmt.Errorf("%s: %w", hook.Name, err)
		}
	}
	return nil
}

// call wants an answer to a dry run. The object is a ConfigMap, which no webhook judges, so the
// answer may be a refusal.
func (c *Cluster) call(ctx context.Context, to registrationv1.WebhookClientConfig) error {
	if len(to.CABundle) == 0 {
		return errors.New("no caBundle yet")
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(to.CABundle) {
		return errors.New("caBundle has no certificate")
	}
	host := to.Service.Name + "." + to.Service.Namespace + ".svc"
	port := int32(443)
	if to.Service.Port != nil {
		port = *to.Service.Port
	}
	address, err := c.clusterIP(ctx, to.Service.Namespace, to.Service.Name)
	if err != nil {
		return err
	}
	dial := func(ctx context.Context, network, _ string) (net.Conn, error) {
		return c.Dial(ctx, network, net.JoinHostPort(address, strconv.Itoa(int(port))))
	}
	transport := &http.Transport{DialContext: dial, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{RootCAs: roots, ServerName: host,
			MinVersion: tls.VersionTLS12}}
	url := "https://" + net.JoinHostPort(host, strconv.Itoa(int(port))) + *to.Service.Path
	return post(ctx, &http.Client{Transport: transport}, url)
}

func (c *Cluster) clusterIP(ctx context.Context, namespace, name string) (string, error) {
	service, err := c.Client.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("read Service %s/%s: %w", namespace, name, err)
	}
	if ip := service.Spec.ClusterIP; net.ParseIP(ip) != nil {
		return ip, nil
	}
	return "", fmt.Errorf("want a cluster IP: Service %s/%s has none", namespace, name)
}

// post sends an AdmissionReview and wants the answer to this review.
func post(ctx context.Context, client *http.Client, url string) error {
	const uid = types.UID("mooring-verify")
	dryRun := true
	body, err := json.Marshal(&admissionv1.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"},
		Request: &admissionv1.AdmissionRequest{
			UID: uid, Operation: admissionv1.Connect, DryRun: &dryRun,
			Kind:   metav1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"},
			Object: runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"ConfigMap"}`)},
		},
	})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return err
	}
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(text, &review); err != nil || review.Response == nil ||
		review.Response.UID != uid {
		return fmt.Errorf("%s: status %s, and no answer to the request: %.200q", url,
			response.Status, text)
	}
	return nil
}
