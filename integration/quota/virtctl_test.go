package quota

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
)

// user may only edit VMs.
const user = "a-tenant"

// virtctl starts, stops and restarts VMs by virt-api's subresources, like the program virtctl.
//
// In a cluster, the API server forwards these requests. virt-api trusts its user header because of
// its certificate. The API server here has no certificate trusted by virt-api. So virtctl calls
// virt-api directly, with a certificate from virt-api's trusted list.
type virtctl struct {
	http *http.Client
	url  string

	strict bool // of the maintenance share in scenarios
}

func newVirtctl(t *testing.T, c *kubevirttest.Cluster) *virtctl {
	t.Helper()
	hooks := &registrationv1.ValidatingWebhookConfiguration{}
	if err := c.Client.Get(t.Context(), client.ObjectKey{Name: "virt-api-validator"},
		hooks); err != nil {
		t.Fatal(err)
	}
	at := hooks.Webhooks[0].ClientConfig
	base, _, found := strings.Cut(strings.TrimPrefix(*at.URL, "https://"), "/")
	if !found {
		t.Fatalf("virt-api's URL is %s", *at.URL)
	}
	certificate, key := trustedClientCertificate(t, c)
	caller, err := rest.HTTPClientFor(
		&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: at.CABundle,
			CertData: certificate, KeyData: key}})
	if err != nil {
		t.Fatal(err)
	}
	v := &virtctl{http: caller, url: "https://" + base + "/apis/" +
		kubevirtv1.SubresourceGroupName + "/v1"}
	t.Cleanup(caller.CloseIdleConnections)
	ns := v.namespace(t, c)
	eventually(t, "virt-api to trust the client", func() error {
		if err := v.put(t, ns, "no-vm", "restart"); !apierrors.IsNotFound(err) {
			return fmt.Errorf("want NotFound for the VM: %w", err)
		}
		return nil
	})
	return v
}

// trustedClientCertificate makes a client certificate trusted by extension API servers until t
// ends.
func trustedClientCertificate(t *testing.T, c *kubevirttest.Cluster) (certificate, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := cert.NewSelfSignedCACert(cert.Config{CommonName: "front-proxy"}, private)
	if err != nil {
		t.Fatal(err)
	}
	if certificate, err = cert.EncodeCertificates(signed); err != nil {
		t.Fatal(err)
	}
	if key, err = keyutil.MarshalPrivateKeyToPEM(private); err != nil {
		t.Fatal(err)
	}
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem,
		Name: "extension-apiserver-authentication"}}
	const all = "requestheader-client-ca-file"
	change(t, c, configMap, func() { configMap.Data[all] += string(certificate) })
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		err := c.Client.Get(ctx, client.ObjectKeyFromObject(configMap), configMap)
		if err == nil {
			configMap.Data[all] = strings.ReplaceAll(configMap.Data[all], string(certificate), "")
			err = c.Client.Update(ctx, configMap)
		}
		if err != nil {
			t.Errorf("removing the client CA from virt-api's list: %v", err)
		}
	})
	return certificate, key
}

// namespace makes a namespace with edit rights on VMs for the user.
func (v *virtctl) namespace(t *testing.T, c *kubevirttest.Cluster) string {
	t.Helper()
	ns := c.Namespace(t, nil)
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: user}}
	binding.RoleRef = rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole",
		Name: "kubevirt.io:edit"}
	binding.Subjects = []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind,
		Name: user}}
	if err := c.Client.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	return ns
}

func (v *virtctl) start(t *testing.T, vm *kubevirtv1.VirtualMachine) error {
	return v.put(t, vm.Namespace, vm.Name, "start")
}

func (v *virtctl) stop(t *testing.T, vm *kubevirtv1.VirtualMachine) error {
	return v.put(t, vm.Namespace, vm.Name, "stop")
}

func (v *virtctl) restart(t *testing.T, vm *kubevirtv1.VirtualMachine) error {
	return v.put(t, vm.Namespace, vm.Name, "restart")
}

// put sends a request and returns virt-api's error, nil if it accepts.
func (v *virtctl) put(t *testing.T, namespace, name, action string) error {
	t.Helper()
	url := fmt.Sprintf("%s/namespaces/%s/virtualmachines/%s/%s", v.url, namespace, name, action)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url,
		strings.NewReader("{}"))
	if err != nil {
		return err
	}
	request.Header.Set("X-Remote-User", user)
	request.Header.Set("X-Remote-Group", "system:authenticated")
	response, err := v.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode == http.StatusAccepted {
		return err
	}
	status := metav1.Status{}
	if err := json.Unmarshal(text, &status); err != nil || status.Status != metav1.StatusFailure {
		return fmt.Errorf("%s %s: %s: %s", action, name, response.Status, text)
	}
	return &apierrors.StatusError{ErrStatus: status}
}
