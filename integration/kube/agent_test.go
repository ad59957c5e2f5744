package kubetest

import (
	"os"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	agentkube "github.com/mooring-vm/mooring/agent/kube"
	"github.com/mooring-vm/mooring/hack/kube"
	"github.com/mooring-vm/mooring/internal/kubeclient"
)

const manifest = "../../deploy/kubernetes/install.yaml"

// agentConfig returns the configuration of install.yaml's agent: its pods' service account with its
// rights.
func agentConfig(t *testing.T, c *kube.ControlPlane) *rest.Config {
	t.Helper()
	set := install(t, c)
	path, err := c.Kubeconfig(t.Context(), set.Namespace, set.Spec.Template.Spec.ServiceAccountName)
	if err != nil {
		t.Fatal(err)
	}
	config := loadConfig(t, path)
	awaitRole(t, clientFor(t, config))
	return config
}

func loadConfig(t *testing.T, kubeconfig string) *rest.Config {
	t.Helper()
	config, err := kubeclient.LoadConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// agentClients returns the agent's clients.
func agentClients(t *testing.T, config *rest.Config) agentkube.Clients {
	t.Helper()
	clients, err := agentkube.NewClients(config)
	if err != nil {
		t.Fatal(err)
	}
	return clients
}

// install applies install.yaml and returns the agent's DaemonSet in it.
func install(t *testing.T, c *kube.ControlPlane) *appsv1.DaemonSet {
	t.Helper()
	return installAll(t, c)[0]
}

// installAll applies install.yaml and returns its DaemonSets, the agent's first.
func installAll(t *testing.T, c *kube.ControlPlane) (sets []*appsv1.DaemonSet) {
	t.Helper()
	f, err := os.Open(manifest)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	objects, err := c.Apply(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if o.GetKind() != "DaemonSet" {
			continue
		}
		set := &appsv1.DaemonSet{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, set); err != nil {
			t.Fatal(err)
		}
		sets = append(sets, set)
	}
	if len(sets) != 2 {
		t.Fatalf("%d DaemonSets in %s, want that of the agent and that of the fence",
			len(sets), manifest)
	}
	return sets
}

// awaitRole returns when the API server's authorizer knows the role, shortly after its creation.
func awaitRole(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	review := &authorizationv1.SelfSubjectAccessReview{
		Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Group: "events.k8s.io", Resource: "events", Verb: "create", Namespace: "vms",
			},
		}}
	eventually(t, "the agent's role", func() bool {
		got, err := client.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), review,
			metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return got.Status.Allowed
	})
}
