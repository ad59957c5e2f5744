package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"
	pluginv1alpha1 "kubevirt.io/api/plugin/v1alpha1"

	"github.com/mooring-vm/mooring/agent/doctor"
	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// Paths of the facts about KubeVirt.
const (
	kubevirtPodsPath = "/api/v1/namespaces/kubevirt/pods"
	bindingPath      = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/" +
		launcherPolicy
	reviewPath = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
	pluginPath = "/apis/plugin.kubevirt.io/v1alpha1/plugins/mooring"
)

// kubevirtAnswers are the answers of a cluster with KubeVirt 1.9, one node with virt-handler and
// an agent, and Mooring's admission policies in mode enforce.
func kubevirtAnswers(allowed bool) map[string]any {
	answers := fleetAnswers([]v1alpha1.NodeState{stateOf("worker-1", 0, false)}, nil)
	object := kubevirtObject()
	object.Status.ObservedKubeVirtVersion = "v1.9.0"
	object.Status.TargetKubeVirtVersion = "v1.9.0"
	answers[kubevirtsPath] = kubevirtv1.KubeVirtList{Items: []kubevirtv1.KubeVirt{object}}
	answers[kubevirtPodsPath] = podList(kubevirtPod("virt-handler", "kubevirt-handler"),
		kubevirtPod("virt-controller", "kubevirt-controller"))
	answers[bindingPath] = admissionv1.ValidatingAdmissionPolicyBinding{
		TypeMeta: metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1",
			Kind: "ValidatingAdmissionPolicyBinding"},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}}}
	answers[reviewPath] = authorizationv1.SubjectAccessReview{
		TypeMeta: metav1.TypeMeta{APIVersion: "authorization.k8s.io/v1",
			Kind: "SubjectAccessReview"},
		Status: authorizationv1.SubjectAccessReviewStatus{Allowed: allowed}}
	return answers
}

func kubevirtPod(component, account string) corev1.Pod {
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "kubevirt", Name: component,
		Labels: map[string]string{kubevirtv1.AppLabel: component}}}
	pod.Spec.NodeName, pod.Spec.ServiceAccountName = "worker-1", account
	return pod
}

// kubevirtFindings runs the doctor on all nodes, and returns the whole report and its findings
// about KubeVirt by check.
func kubevirtFindings(t *testing.T) (fleetReport, map[string]doctor.Finding) {
	t.Helper()
	var out, errOut bytes.Buffer
	testProgram(&out, &errOut).Run(t.Context(), []string{"doctor", "--all-nodes", "-o", "json"})
	var r fleetReport
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("%v: %s%s", err, out.String(), errOut.String())
	}
	all := map[string]doctor.Finding{}
	for _, f := range r.KubeVirt {
		all[f.Check] = f
	}
	return r, all
}

func TestDoctorKubeVirt(t *testing.T) {
	serveCluster(t, kubevirtAnswers(true))
	r, findings := kubevirtFindings(t)
	if r.Problems != 0 || len(findings) < 8 {
		t.Errorf("%d problems, findings %+v", r.Problems, findings)
	}
	for _, f := range findings {
		if f.Status != doctor.OK {
			t.Errorf("%+v", f)
		}
	}
}

// TestDoctorKubeVirtProblem counts a problem of KubeVirt, and shows it after the nodes.
func TestDoctorKubeVirtProblem(t *testing.T) {
	serveCluster(t, kubevirtAnswers(false))
	if r, _ := kubevirtFindings(t); r.Problems != 1 {
		t.Errorf("%d problems, want 1: %+v", r.Problems, r.KubeVirt)
	}
	var out, errOut bytes.Buffer
	if code := testProgram(&out, &errOut).Run(t.Context(),
		[]string{"doctor", "--all-nodes"}); code != ExitFailure {
		t.Errorf("exit code %d", code)
	}
	const want = "KubeVirt: problems found: 1\nproblem  kubevirt-account: " +
		"system:serviceaccount:kubevirt:kubevirt-controller lacks the verb \"set\" for " +
		"launcherlabels and podannotations.mooring.dev in all namespaces\n"
	at := strings.Index(out.String(), want)
	if at < 0 || at < strings.Index(out.String(), "worker-1: ") {
		t.Errorf("got\n%s\nwant at the end\n%s", out.String(), want)
	}
	if !strings.Contains(errOut.String(), "problems found: 1;") {
		t.Errorf("error output: %s", errOut.String())
	}
}

// TestDoctorKubeVirtPlugin finds a Plugin whose gate is off.
func TestDoctorKubeVirtPlugin(t *testing.T) {
	answers := kubevirtAnswers(true)
	answers[pluginPath] = pluginv1alpha1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: "mooring"}}
	serveCluster(t, answers)
	if r, findings := kubevirtFindings(t); r.Problems != 1 ||
		findings["kubevirt-plugin"].Status != doctor.Problem {
		t.Errorf("%d problems, %+v", r.Problems, findings["kubevirt-plugin"])
	}
}

// TestDoctorWithoutKubeVirt has no findings about KubeVirt: Mooring works without it.
func TestDoctorWithoutKubeVirt(t *testing.T) {
	none := kubevirtAnswers(true)
	delete(none, kubevirtsPath) // no such kind
	for name, answers := range map[string]map[string]any{"no kind": none, "no object": {
		statesPath: none[statesPath], podsOfAll: none[podsOfAll],
		kubevirtsPath: kubevirtv1.KubeVirtList{}}} {
		serveCluster(t, answers)
		if r, _ := kubevirtFindings(t); r.KubeVirt != nil || r.Problems != 0 {
			t.Errorf("%s: %+v", name, r)
		}
		var out, errOut bytes.Buffer
		testProgram(&out, &errOut).Run(t.Context(), []string{"doctor", "--all-nodes"})
		if strings.Contains(out.String(), "KubeVirt") {
			t.Errorf("%s: %s", name, out.String())
		}
	}
}

// TestDoctorKubeVirtUnread names the missing right, and finds no problem.
func TestDoctorKubeVirtUnread(t *testing.T) {
	for _, c := range []struct{ path, check, right string }{
		{kubevirtsPath, "kubevirt-version", `"list" for kubevirts`},
		{kubevirtPodsPath, "kubevirt-nodes", `"list" for pods in namespace kubevirt`},
		{bindingPath, "kubevirt-account", `"get" for validatingadmissionpolicybindings`},
		{reviewPath, "kubevirt-account", `"create" for subjectaccessreviews`},
		{pluginPath, "kubevirt-plugin", `"get" for plugins.plugin.kubevirt.io`},
	} {
		answers := kubevirtAnswers(true)
		answers[c.path] = failure(403, metav1.StatusReasonForbidden, "things is forbidden: User "+
			`"eve" cannot list resource "things"`)
		serveCluster(t, answers)
		r, findings := kubevirtFindings(t)
		f := findings[c.check]
		if f.Status != doctor.Unknown || !strings.Contains(f.Mend, c.right) || r.Problems != 0 {
			t.Errorf("%s: %d problems, %+v", c.path, r.Problems, f)
		}
	}
	answers := kubevirtAnswers(true)
	delete(answers, bindingPath) // the chart's value annotations.policy is false
	delete(answers, reviewPath)
	serveCluster(t, answers)
	if _, findings := kubevirtFindings(t); findings["kubevirt-account"].Status != doctor.OK {
		t.Errorf("without policies: %+v", findings["kubevirt-account"])
	}
}
