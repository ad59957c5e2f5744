package deploy

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/hack/kube"
	kubetest "github.com/mooring-vm/mooring/integration/kube"
	"github.com/mooring-vm/mooring/quota"
)

// warnings collects the API server's warnings.
type warnings struct {
	mu   sync.Mutex
	said []string
}

func (w *warnings) HandleWarningHeader(_ int, _, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, text)
}

func (w *warnings) take() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer func() { w.said = nil }()
	return strings.Join(w.said, "\n")
}

// policyTest is a namespace with two users. Both have all rights on the policies' objects, and the
// annotator may also set annotations of pods.
type policyTest struct {
	namespace        string
	admin            client.Client
	plain, annotator client.Client
	warnings         *warnings // received by plain
	config           *rest.Config
}

func newPolicyTest(t *testing.T, plane *kube.ControlPlane) *policyTest {
	t.Helper()
	clientset, err := kubernetes.NewForConfig(plane.Config())
	if err != nil {
		t.Fatal(err)
	}
	return newPolicyTestIn(t, plane, kubetest.Namespace(t, clientset))
}

func newPolicyTestIn(t *testing.T, plane *kube.ControlPlane, namespace string) *policyTest {
	t.Helper()
	p := &policyTest{namespace: namespace, admin: clientFor(t, plane.Config()),
		warnings: &warnings{}, config: plane.Config()}
	all := &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "everything-" + p.namespace},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Verbs: []string{"*"},
			Resources: []string{"pods", "pods/status", "pods/binding", "resourcequotas",
				"namespaces", "namespaces/status", "namespaces/finalize"},
		}, {
			APIGroups: []string{v1alpha1.Group}, Verbs: []string{"*"},
			Resources: []string{"migrationreservations"},
		}, {
			APIGroups: []string{"kubevirt.io", "pool.kubevirt.io", "instancetype.kubevirt.io",
				"snapshot.kubevirt.io", "clone.kubevirt.io"},
			Verbs: []string{"*"}, Resources: []string{"*"},
		}},
	}
	if err := p.admin.Create(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	for _, user := range []string{"plain", "annotator"} {
		p.bind(t, user, all.Name)
	}
	p.bind(t, "annotator", "mooring-annotations")
	p.plain, p.annotator = p.as(t, "plain", p.warnings), p.as(t, "annotator", rest.NoWarnings{})
	return p
}

// as returns a client of a user.
func (p *policyTest) as(t *testing.T, user string, w rest.WarningHandler) client.Client {
	t.Helper()
	config := rest.CopyConfig(p.config)
	config.Impersonate.UserName, config.WarningHandler = user, w
	return clientFor(t, config)
}

// bind binds a role to a user: in all namespaces, except for annotation roles.
func (p *policyTest) bind(t *testing.T, user, role string) {
	t.Helper()
	name := metav1.ObjectMeta{Name: user + "-" + role + "-" + p.namespace}
	reference := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
	var binding client.Object = &rbacv1.ClusterRoleBinding{ObjectMeta: name, RoleRef: reference,
		Subjects: subjects}
	if role == "mooring-annotations" {
		name.Namespace = p.namespace
		binding = &rbacv1.RoleBinding{ObjectMeta: name, RoleRef: reference, Subjects: subjects}
	}
	if err := p.admin.Create(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
}

func (p *policyTest) pod(name string, annotations map[string]string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: name, Annotations: annotations},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

// await returns when the API server applies the policies in a mode.
func (p *policyTest) await(t *testing.T, heeded func(err error) error) {
	t.Helper()
	eventually(t, "the policy and the roles", func() error {
		if err := p.annotator.Create(t.Context(),
			p.pod("probe", map[string]string{"launcher.mooring.dev": "c"}),
			client.DryRunAll); err != nil {
			return err
		}
		return heeded(p.plain.Create(t.Context(),
			p.pod("probe", map[string]string{"launcher.mooring.dev": "c"}), client.DryRunAll))
	})
}

func startPolicyTest(t *testing.T, mode string) *policyTest {
	t.Helper()
	plane := kubetest.Start(t)
	args := []string{"--set=mode=" + mode, "--set=webhooks.enabled=false",
		"--set-file=agent.policy=../../deploy/policy/" + mode + ".yaml"}
	apply(t, plane, render(t, args...))
	return newPolicyTest(t, plane)
}

func startEnforced(t *testing.T) *policyTest {
	t.Helper()
	p := startPolicyTest(t, "enforce")
	p.await(t, func(err error) error { return checkRefusedBy("mooring-annotations", err) })
	return p
}

// checkRefusedBy returns nil if err is a refusal by the policy.
func checkRefusedBy(policy string, err error) error {
	if apierrors.IsForbidden(err) && strings.Contains(err.Error(), policy) {
		return nil
	}
	return notInForce{err}
}

// notInForce is the result before a policy is in force.
type notInForce struct{ err error }

func (n notInForce) Error() string { return fmt.Sprintf("not in force: %v", n.err) }

// wantRefused checks that err is a policy's refusal with these parts.
func wantRefused(t *testing.T, what string, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: got %v, want Forbidden with %q", what, err, part)
		}
	}
}

func TestPodAnnotationsAreRefused(t *testing.T) {
	p := startEnforced(t)
	for key, refused := range map[string]bool{
		"launcher.mooring.dev":                          true,
		"value.memlock.mooring.dev":                     true,
		"memory.high.cgroup.mooring.dev/container.c":    true,
		"launcher.mooring.device":                       false,
		"mooring.dev.example.com/launcher":              false,
		"required-plugins.noderesource.dev/container.c": false,
	} {
		err := p.plain.Create(t.Context(), p.pod("p", map[string]string{key: "c"}),
			client.DryRunAll)
		if refused {
			wantRefused(t, key, err, "plain may not change "+key,
				`verb "set" for podannotations.mooring.dev in namespace `+p.namespace)
		} else if err != nil {
			t.Errorf("%s: %v", key, err)
		}
		if err := p.annotator.Create(t.Context(), p.pod("p", map[string]string{key: "c"}),
			client.DryRunAll); err != nil {
			t.Errorf("%s, with the right: %v", key, err)
		}
	}
}

// Changes of other parts of a pod pass. No other way to change the annotations passes.
func TestPodAnnotationsAreKept(t *testing.T) {
	p := startEnforced(t)
	pod := p.pod("annotated", map[string]string{"launcher.mooring.dev": "c", "example.com/a": "1"})
	if err := p.annotator.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	change := func(key, value string) *corev1.Pod {
		changed := pod.DeepCopy()
		changed.Annotations[key] = value
		return changed
	}
	if err := p.plain.Update(t.Context(), change("example.com/a", "2"), client.DryRunAll); err !=
		nil {
		t.Errorf("another annotation: %v", err)
	}
	if err := p.plain.Status().Update(t.Context(), pod.DeepCopy()); err != nil {
		t.Errorf("the status: %v", err)
	}
	const key = "launcher.mooring.dev"
	wantRefused(t, "changed", p.plain.Update(t.Context(), change(key, "d"), client.DryRunAll), key)
	wantRefused(t, "changed by way of the status",
		p.plain.Status().Update(t.Context(), change(key, "d")), key)
	removed := pod.DeepCopy()
	delete(removed.Annotations, key)
	wantRefused(t, "removed", p.plain.Update(t.Context(), removed, client.DryRunAll), key)
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{key: "d"}},
		Target:     corev1.ObjectReference{Kind: "Node", Name: "node-1"},
	}
	wantRefused(t, "bound", p.plain.SubResource("binding").Create(t.Context(), pod.DeepCopy(),
		binding), key)
	binding.Annotations = nil
	if err := p.plain.SubResource("binding").Create(t.Context(), pod.DeepCopy(), binding); err !=
		nil {
		t.Errorf("bound without: %v", err)
	}
}

// The policies exclude kube-system and Mooring's own namespace.
func TestOwnNamespacesAreNotPoliced(t *testing.T) {
	p := startEnforced(t)
	for _, namespace := range []string{metav1.NamespaceSystem, system} {
		pod := p.pod("p", map[string]string{"launcher.mooring.dev": "c"})
		pod.Namespace, pod.Spec.ServiceAccountName = namespace, "default"
		account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace,
			Name: "default"}}
		if err := p.admin.Create(t.Context(), account); err != nil &&
			!apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
		if err := p.plain.Create(t.Context(), pod, client.DryRunAll); err != nil {
			t.Errorf("%s: %v", namespace, err)
		}
	}
}

func TestQuotaAnnotationsAreRefused(t *testing.T) {
	p := startEnforced(t)
	q := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "default"},
		Spec: corev1.ResourceQuotaSpec{
			Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("100")}},
	}
	if err := p.plain.Create(t.Context(), q); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // a later uninstall test would find it
		if err := p.admin.Delete(context.Background(), q); err != nil {
			t.Error(err)
		}
	})
	annotate := func(by client.Client, key, value string) error {
		changed := q.DeepCopy()
		if changed.Annotations == nil {
			changed.Annotations = map[string]string{}
		}
		changed.Annotations[key] = value
		return by.Patch(t.Context(), changed, client.MergeFrom(q))
	}
	for _, key := range quota.StateAnnotations() {
		wantRefused(t, key, annotate(p.plain, key, "{}"), "plain may not change "+key,
			"quotaannotations.mooring.dev")
		wantRefused(t, key+", by a user with the right to annotate pods",
			annotate(p.annotator, key, "{}"), key)
		controller := p.as(t, "system:serviceaccount:"+system+":mooring-controller",
			rest.NoWarnings{})
		if err := annotate(controller, key, "{}"); err != nil {
			t.Errorf("%s, by the controller: %v", key, err)
		}
	}
	if err := annotate(p.plain, "skip.quota.mooring.dev", "1"); err != nil {
		t.Errorf("another one: %v", err)
	}
	if err := p.admin.Get(t.Context(), client.ObjectKeyFromObject(q), q); err != nil {
		t.Fatal(err)
	}
	q.Spec.Hard[corev1.ResourcePods] = resource.MustParse("50")
	if err := p.plain.Update(t.Context(), q); err != nil {
		t.Errorf("spec.hard of an annotated quota: %v", err)
	}
	delete(q.Annotations, quota.BaseAnnotation)
	wantRefused(t, "removed", p.plain.Update(t.Context(), q), quota.BaseAnnotation)
}

// In observe mode all requests pass with a warning that names the user.
func TestObserveWarns(t *testing.T) {
	p := startPolicyTest(t, "observe")
	p.await(t, func(err error) error {
		if warned := p.warnings.take(); err != nil ||
			!strings.Contains(warned, "plain may not change launcher.mooring.dev") {
			return notInForce{err}
		}
		return nil
	})
	if err := p.plain.Create(t.Context(), p.pod("p", map[string]string{"example.com/a": "c"}),
		client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	if warned := p.warnings.take(); warned != "" {
		t.Errorf("another annotation: warned of %q", warned)
	}
	p.awaitLabels(t, func(err error) error {
		if warned := p.warnings.take(); err != nil ||
			!strings.Contains(warned, "plain may not change "+kubevirtv1.MigrationJobLabel) {
			return notInForce{err}
		}
		return nil
	})
}
