package quota

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/mooring-vm/mooring/integration/controllerprogram"
	kubevirttest "github.com/mooring-vm/mooring/integration/kubevirt"
)

// TestRights lists the controller's rights beyond an account without roles. KubeVirt lets every
// account read its own object and the cluster's instance types. The other tests show that these
// rights suffice.
func TestRights(t *testing.T) {
	c := kubevirttest.Start(t)
	install(t, c, controllerprogram.Name)
	want := []string{
		"create /events", "create /pods", "create coordination.k8s.io/leases",
		"create events.k8s.io/events",
		"create mooring.dev/migrationreservations",
		"delete mooring.dev/migrationreservations",
		"get /namespaces", "get /nodes", "get /secrets mooring-webhook-certificates",
		"get admissionregistration.k8s.io/mutatingwebhookconfigurations mooring-launcher",
		"get admissionregistration.k8s.io/validatingwebhookconfigurations mooring-guard",
		"get apps/controllerrevisions",
		"get coordination.k8s.io/leases mooring-controller",
		"get instancetype.kubevirt.io/virtualmachineinstancetypes",
		"get instancetype.kubevirt.io/virtualmachinepreferences",
		"get kubevirt.io/virtualmachineinstances", "get kubevirt.io/virtualmachines",
		"get mooring.dev/migrationreservations",
		"get snapshot.kubevirt.io/virtualmachinesnapshotcontents",
		"get snapshot.kubevirt.io/virtualmachinesnapshots",
		"list /limitranges", "list /namespaces", "list /nodes", "list /pods",
		"list /resourcequotas",
		"list kubevirt.io/virtualmachineinstancemigrations",
		"list kubevirt.io/virtualmachineinstances",
		"list kubevirt.io/virtualmachines",
		"list mooring.dev/migrationreservations",
		"list mooring.dev/nodepolicies", "list mooring.dev/nodestates",
		"patch /events", "patch /namespaces", "patch /pods", "patch /pods/resize",
		"patch /resourcequotas",
		"patch admissionregistration.k8s.io/mutatingwebhookconfigurations mooring-launcher",
		"patch admissionregistration.k8s.io/validatingwebhookconfigurations mooring-guard",
		"patch events.k8s.io/events",
		"patch kubevirt.io/virtualmachineinstances", "patch kubevirt.io/virtualmachines",
		"patch mooring.dev/migrationreservations",
		"set mooring.dev/podannotations", "set mooring.dev/quotaannotations",
		"update /secrets mooring-webhook-certificates",
		"update coordination.k8s.io/leases mooring-controller",
		"update mooring.dev/migrationreservations",
		"update mooring.dev/migrationreservations/status",
		"update mooring.dev/nodepolicies/status",
		"watch /namespaces", "watch /nodes", "watch /pods", "watch /resourcequotas",
		"watch kubevirt.io/kubevirts",
		"watch kubevirt.io/virtualmachineinstancemigrations",
		"watch kubevirt.io/virtualmachineinstances", "watch kubevirt.io/virtualmachines",
		"watch mooring.dev/migrationreservations",
		"watch mooring.dev/nodepolicies", "watch mooring.dev/nodestates",
	}
	baseline := rules(t, c, "default")
	own := slices.DeleteFunc(rules(t, c, "mooring-controller"),
		func(rule string) bool { return slices.Contains(baseline, rule) })
	if diff := cmp.Diff(want, own); diff != "" {
		t.Errorf("rights of the controller (-want +got):\n%s", diff)
	}
}

// rules lists the rights of a service account in the controller's namespace, one verb and resource
// a line.
func rules(t *testing.T, c *kubevirttest.Cluster, account string) []string {
	t.Helper()
	eventually(t, "the service account "+account, func() error {
		_, err := c.Plane.Kubeconfig(t.Context(), system, account)
		return err
	})
	path, err := c.Plane.Kubeconfig(t.Context(), system, account)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	return rulesOfReview(t, config)
}

func rulesOfReview(t *testing.T, config *rest.Config) []string {
	t.Helper()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	review, err := client.AuthorizationV1().SelfSubjectRulesReviews().Create(t.Context(),
		&authorizationv1.SelfSubjectRulesReview{
			Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: system},
		}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, r := range review.Status.ResourceRules {
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				for _, verb := range r.Verbs {
					all = append(all, suffixed(verb+" "+group+"/"+resource, r.ResourceNames))
				}
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func suffixed(rule string, names []string) string {
	for _, name := range names {
		rule += " " + name
	}
	return rule
}
