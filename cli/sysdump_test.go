package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// dumpOf runs sysdump, and returns the files of the archive by name and the error output.
func dumpOf(t *testing.T, args ...string) (map[string]string, string) {
	t.Helper()
	var out, errOut bytes.Buffer
	path := filepath.Join(t.TempDir(), "dump.tar.gz")
	code := testProgram(&out, &errOut).Run(t.Context(),
		append([]string{"sysdump", "-f", path}, args...))
	if code != ExitOK {
		t.Fatalf("exit code %d: %s", code, errOut.String())
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	uncompressed, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for r := tar.NewReader(uncompressed); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, errOut.String()
		}
		text, readErr := io.ReadAll(r)
		if err := errors.Join(err, readErr); err != nil {
			t.Fatal(err)
		}
		_, name, _ := strings.Cut(header.Name, "/")
		files[name] = string(text)
	}
}

func podList(pods ...corev1.Pod) corev1.PodList {
	return corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"},
		Items: pods}
}

// podOfMooring returns a pod with one container.
func podOfMooring(namespace, node string) corev1.Pod {
	pod := agentPod(node, corev1.PodPending)
	pod.Namespace = namespace
	pod.Spec.Containers = []corev1.Container{{Name: "agent"}}
	return pod
}

// TestSysdumpFindsNamespace expects the pods of an installation in any namespace.
func TestSysdumpFindsNamespace(t *testing.T) {
	one, two := podOfMooring("moorings", "node-1"), podOfMooring("moorings", "node-2")
	other := podOfMooring("trial", "node-3")
	serveCluster(t, map[string]any{statesPath: stateList(nil),
		"/api/v1/pods":                     podList(other, one, two),
		"/api/v1/namespaces/moorings/pods": podList(one, two),
		"/api/v1/namespaces/trial/pods":    podList(other)})
	for namespace, c := range map[string]struct {
		args       []string
		file, said string
	}{
		"found": {nil, "mooring-agent-node-2",
			"pods of Mooring are in several namespaces, moorings and trial: "},
		"given": {[]string{"-n", "trial"}, "mooring-agent-node-3", ""},
	} {
		files, said := dumpOf(t, c.args...)
		if !strings.Contains(files["pods.yaml"], c.file) ||
			!strings.Contains(files["errors.txt"], "logs/"+c.file+"/agent.log: ") ||
			!strings.Contains(said, c.said) || strings.Contains(said, "several") != (c.said != "") {
			t.Errorf("%s: %s\n%s\n%s", namespace, said, files["pods.yaml"], files["errors.txt"])
		}
	}
}

// TestSysdumpWithoutPods expects a plain message if the namespace has no pod of Mooring.
func TestSysdumpWithoutPods(t *testing.T) {
	serveCluster(t, map[string]any{statesPath: stateList(nil), "/api/v1/pods": podList(),
		"/api/v1/namespaces/mooring-system/pods": podList(),
		"/api/v1/namespaces/wrong/pods":          podList()})
	for _, namespace := range []string{"mooring-system", "wrong"} {
		var args []string
		if namespace == "wrong" {
			args = []string{"-n", namespace}
		}
		files, said := dumpOf(t, args...)
		want := "logs: no pod of Mooring in namespace " + namespace
		if !strings.Contains(said, "not in the archive: "+want) ||
			!strings.Contains(files["errors.txt"], want) {
			t.Errorf("%s: %s%s", namespace, said, files["errors.txt"])
		}
	}
}

// TestSysdumpOfWebhooksAndQuotas expects the quotas of namespaces with reservations, and the reason
// for each missing part.
func TestSysdumpOfWebhooksAndQuotas(t *testing.T) {
	reservations := v1alpha1.MigrationReservationList{TypeMeta: metav1.TypeMeta{
		APIVersion: "mooring.dev/v1alpha1", Kind: "MigrationReservationList"}}
	for _, namespace := range []string{"vms", "vms", "denied"} {
		r := reservation("m-1", "vm-1", v1alpha1.PhaseReserved, "1", "1Gi")
		r.Namespace = namespace
		reservations.Items = append(reservations.Items, r)
	}
	quotas := corev1.ResourceQuotaList{Items: []corev1.ResourceQuota{raisedQuota()}, TypeMeta: metav1.
		TypeMeta{APIVersion: "v1", Kind: "ResourceQuotaList"}}
	registration := func(kind string) metav1.TypeMeta {
		return metav1.TypeMeta{APIVersion: "admissionregistration.k8s.io/v1", Kind: kind}
	}
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
	s := startQuotaServer(t)
	t.Setenv("KUBECONFIG", s.kubeconfig)
	s.objects = map[string]any{
		"/apis/mooring.dev/v1alpha1/migrationreservations": reservations,
		quotasPath: quotas,
		"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations": admissionv1.
			ValidatingWebhookConfigurationList{
			TypeMeta: registration("ValidatingWebhookConfigurationList"),
			Items: []admissionv1.ValidatingWebhookConfiguration{
				{ObjectMeta: named("mooring-guard")}}},
		"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations": failure(
			http.StatusForbidden, metav1.StatusReasonForbidden, "no right"),
		"/api/v1/namespaces/denied/resourcequotas": failure(http.StatusForbidden,
			metav1.StatusReasonForbidden, "no quota for you"),
	}
	files, _ := dumpOf(t)
	if strings.Count(files["resourcequotas.yaml"], "name: default\n") != 1 ||
		!strings.Contains(files["resourcequotas.yaml"], "limits.cpu: \"10\"") {
		t.Errorf("resourcequotas.yaml:\n%s", files["resourcequotas.yaml"])
	}
	if !strings.Contains(files["validatingwebhookconfigurations.yaml"], "mooring-guard") {
		t.Errorf("%v", files)
	}
	for _, want := range []string{
		"mutatingwebhookconfigurations.yaml: no right\n",
		"resourcequotas.yaml: namespace denied: no quota for you\n",
	} {
		if !strings.Contains(files["errors.txt"], want) {
			t.Errorf("errors.txt lacks %q:\n%s", want, files["errors.txt"])
		}
	}
}

// TestSysdumpOfKubeVirt expects the findings about KubeVirt, and an empty list without it.
func TestSysdumpOfKubeVirt(t *testing.T) {
	serveCluster(t, kubevirtAnswers(false))
	if files, _ := dumpOf(t); !strings.Contains(files["kubevirt.json"], "kubevirt-account") ||
		!strings.Contains(files["kubevirt.json"], `"problems": 1`) {
		t.Errorf("kubevirt.json: %s", files["kubevirt.json"])
	}
	none := kubevirtAnswers(true)
	delete(none, kubevirtsPath)
	serveCluster(t, none)
	if files, _ := dumpOf(t); !strings.Contains(files["kubevirt.json"], `"findings": []`) {
		t.Errorf("kubevirt.json: %s", files["kubevirt.json"])
	}
}
