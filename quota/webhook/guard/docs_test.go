package guard_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/yaml"

	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/webhook/guard"
)

func read(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{"..", "..", ".."}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestDocumentedWebhooks compares the table and the common settings in docs/reference/webhooks.md
// with install.yaml.
func TestDocumentedWebhooks(t *testing.T) {
	docs := read(t, "docs", "reference", "webhooks.md")
	found := 0
	for document := range strings.SplitSeq(read(t, "deploy", "kubernetes", "install.yaml"),
		"\n---\n") {
		all := &registrationv1.ValidatingWebhookConfiguration{} // has all fields compared here
		if err := yaml.Unmarshal([]byte(document), all); err != nil ||
			!strings.HasSuffix(all.Kind, "WebhookConfiguration") {
			continue
		}
		for _, hook := range all.Webhooks {
			found++
			if !strings.Contains(docs, "| `"+hook.Name+"` |") {
				t.Errorf("docs/reference/webhooks.md has no row of %s", hook.Name)
			}
			if *hook.FailurePolicy != registrationv1.Ignore || *hook.TimeoutSeconds != 5 {
				t.Errorf("%s: %s, %d seconds: the docs say Ignore and 5", hook.Name,
					*hook.FailurePolicy, *hook.TimeoutSeconds)
			}
			if excluded := excluded(hook.NamespaceSelector); !slices.Equal(excluded,
				[]string{"kube-system", "mooring-system"}) {
				t.Errorf("%s leaves out %q", hook.Name, excluded)
			}
		}
	}
	if found != 10 {
		t.Errorf("install.yaml has %d webhooks, want 10", found)
	}
}

func excluded(s *metav1.LabelSelector) []string {
	for _, e := range s.MatchExpressions {
		if e.Key == corev1.LabelMetadataName && e.Operator == metav1.LabelSelectorOpNotIn {
			return e.Values
		}
	}
	return nil
}

// TestDocumentedMessages compares every message in docs/reference/webhooks.md with the guards'
// messages.
func TestDocumentedMessages(t *testing.T) {
	docs := read(t, "docs", "reference", "webhooks.md")
	busy := newWorld(t, namespace(manager, managed16), edit(raised(), managed), reservation(),
		kubevirtObject())
	idle := newWorld(t, namespace(), quiet(), kubevirtObject())
	pod := ask(t, admissionv1.Create, nil, made("9Gi", ""))
	pod.Namespace = "vms"
	for _, of := range []struct {
		guard   admission.Handler
		request admission.Request
	}{
		{guard.NewQuota(busy.guard), ask(t, admissionv1.Delete, raised(), nil)},
		{guard.NewQuota(busy.guard),
			ask(t, admissionv1.Update, raised(), edit(raised(), hard("limits.cpu", "20")))},
		{guard.NewQuota(busy.guard), ask(t, admissionv1.Update, raised(),
			edit(raised(), annotate(quota.BaseAnnotation, "{}")))},
		{guard.NewQuota(idle.guard),
			ask(t, admissionv1.Update, quiet(), edit(quiet(), hard("limits.cpu", "3")))},
		{guard.NewNamespace(busy.guard), ask(t, admissionv1.Update, namespace(manager, managed16),
			namespace())},
		{guard.NewNamespace(busy.guard), ask(t, admissionv1.Update, namespace(),
			namespace(shareKey, `{"limitsCpuPercent":50}`))},
		{guard.NewNamespace(idle.guard), ask(t, admissionv1.Update, namespace(),
			namespace(shareKey, `{"limitsCpuPercent":75}`))},
		{guard.NewVM(idle.guard), ask(t, admissionv1.Create, nil, vm(always, "4Gi"))},
		{guard.NewMigration(newWorld(t, sharing(strictQuarter, reserved("web"))...).guard),
			ask(t, admissionv1.Create, nil, migration())},
		{guard.NewLauncher(busy.guard), pod},
		{guard.NewPod(busy.guard), ask(t, admissionv1.Create, nil, plain("web", "9Gi"))},
	} {
		message := of.guard.Handle(t.Context(), of.request).Result.Message
		if message == "" || !strings.Contains(docs, "    "+message+"\n") {
			t.Errorf("docs/reference/webhooks.md does not have:\n    %s", message)
		}
	}
}

// TestDocumentedWarning compares the warning about an unrecorded target.
func TestDocumentedWarning(t *testing.T) {
	w := newWorld(t, append(migrating(), namespace(), raised(), reservation(), kubevirtObject())...)
	r := ask(t, admissionv1.Create, nil, made("99Gi", "m-db"))
	r.Namespace, r.UserInfo.Username = "vms", virtController
	got := guard.NewLauncher(w.guard).Handle(t.Context(), r)
	if len(got.Warnings) != 1 || !strings.Contains(read(t, "docs", "reference", "webhooks.md"),
		"    "+got.Warnings[0]+"\n") {
		t.Errorf("docs/reference/webhooks.md does not have:\n    %s", got.Warnings)
	}
}
