package kubetest

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-vm/mooring/cli"
	"github.com/mooring-vm/mooring/hack/kube"
)

// TestSysdump reads an archive back. It must have Mooring's objects, no Secret and no token, and
// the reasons for the absence of parts. No kubelet runs here, so no log and no doctor answers.
func TestSysdump(t *testing.T) {
	plane := Start(t)
	documentedFleet(t, plane)
	documentedEvent(t, clientFor(t, plane.Config()))
	const password, token = "hunter2-hunter2", "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJ4In0.c2lnbmF0"
	plantSecrets(t, plane, password, token)
	l := newLaptop(t, plane, documentedNow, "system:aggregate-to-view", "mooring-view")
	l.awaitRights(t)
	t.Chdir(t.TempDir())
	code, got := l.run(t, "sysdump")
	const name = "mooring-sysdump-20261123T120000Z"
	if code != cli.ExitOK || !strings.Contains(got, name+".tar.gz\n") {
		t.Fatalf("exit code %d:\n%s", code, got)
	}
	files := filesIn(t, name+".tar.gz")
	for file, want := range map[string]string{
		"version.yaml":               "gitVersion: v1.",
		"status.json":                `"NoAnswer"`,
		"launchers.json":             "virt-launcher-db-x7k2p",
		"nodestates.yaml":            "worker-2",
		"nodepolicies.yaml":          "kind: NodePolicyList",
		"migrationreservations.yaml": "kind: MigrationReservationList",
		"configmaps.yaml":            "policy.yaml: ",
		"daemonsets.yaml":            "mooring-agent",
		"deployments.yaml":           "mooring-controller",
		"pods.yaml":                  "mooring-agent-worker-3",
		"events.yaml":                "MemlockRefused",
		"errors.txt": "doctor/worker-3.json: the agent's pod mooring-system/" +
			"mooring-agent-worker-3 is Pending\n",
	} {
		if !strings.Contains(files[name+"/"+file], want) {
			t.Errorf("%s lacks %q:\n%.2000s", file, want, files[name+"/"+file])
		}
	}
	for _, want := range []string{"logs/mooring-agent-worker-3/agent.log: ",
		"nodes.yaml: nodes is forbidden"} {
		if !strings.Contains(files[name+"/errors.txt"], want) {
			t.Errorf("errors.txt lacks %q:\n%s", want, files[name+"/errors.txt"])
		}
	}
	if !strings.Contains(files[name+"/configmaps.yaml"], "note: [removed]") {
		t.Errorf("the token of a ConfigMap:\n%s", files[name+"/configmaps.yaml"])
	}
	for file, text := range files {
		for _, secret := range []string{password, token, "kind: Secret"} {
			if strings.Contains(text, secret) {
				t.Errorf("%s has %q", file, secret)
			}
		}
	}
	info, err := os.Stat(name + ".tar.gz")
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if code, got := l.run(t, "sysdump"); code != cli.ExitFailure ||
		!strings.Contains(got, "create the archive") {
		t.Errorf("an existing file: exit code %d:\n%s", code, got)
	}
}

// plantSecrets makes a Secret and a ConfigMap with the labels of Mooring.
func plantSecrets(t *testing.T, plane *kube.ControlPlane, password, token string) {
	t.Helper()
	admin := clientFor(t, plane.Config())
	meta := metav1.ObjectMeta{GenerateName: "planted-",
		Labels: map[string]string{"app.kubernetes.io/name": "mooring"}}
	_, err := admin.CoreV1().Secrets("mooring-system").Create(t.Context(), &corev1.Secret{
		ObjectMeta: meta, StringData: map[string]string{"password": password, "token": token},
	}, metav1.CreateOptions{})
	_, mapErr := admin.CoreV1().ConfigMaps("mooring-system").Create(t.Context(), &corev1.ConfigMap{
		ObjectMeta: meta, Data: map[string]string{"note": token}}, metav1.CreateOptions{})
	if err := errors.Join(err, mapErr); err != nil {
		t.Fatal(err)
	}
}

// filesIn reads an archive.
func filesIn(t *testing.T, path string) map[string]string {
	t.Helper()
	f, err := os.Open(filepath.Clean(path))
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
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = string(text)
	}
}
