package deploy

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kubeconfig writes a kubeconfig with all rights.
func kubeconfig(t *testing.T, config *rest.Config) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{
			"c": {Server: config.Host, CertificateAuthorityData: config.CAData}},
		AuthInfos: map[string]*clientcmdapi.AuthInfo{
			"c": {ClientCertificateData: config.CertData, ClientKeyData: config.KeyData}},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "c", AuthInfo: "c"}},
		CurrentContext: "c",
	}, path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// runJob acts for the Job controller and kubelet. It runs the command of helm uninstall's Job with
// the Job's account, and sets the Job's status to succeeded.
func (u *installation) runJob(ctx context.Context) error {
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, patience, true,
		func(ctx context.Context) (bool, error) {
			return u.readJob(ctx) == nil, nil
		})
	if err != nil {
		return err
	}
	var last error
	err = wait.PollUntilContextTimeout(ctx, time.Second, patience, true,
		func(ctx context.Context) (bool, error) {
			_, last = u.run(ctx) // roles apply with a delay, and a Job retries
			return last == nil, nil
		})
	if err != nil {
		return last
	}
	var job batchv1.Job
	if err := u.admin.Get(ctx, uninstallJob(), &job); err != nil {
		return err
	}
	now := metav1.Now()
	job.Status.StartTime, job.Status.CompletionTime, job.Status.Succeeded = &now, &now, 1
	for _, condition := range []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet,
		batchv1.JobComplete} {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
			Type: condition, Status: corev1.ConditionTrue, LastTransitionTime: now,
		})
	}
	return u.admin.Status().Update(ctx, &job)
}

// TestHelm installs, upgrades and uninstalls the release with an active migration. Only the
// namespace stays. The second case switches the controller off during the migration.
func TestHelm(t *testing.T) {
	for name, last := range map[string][]string{"as it is": nil,
		"after its controller": {"--set=controller.enabled=false"}} {
		t.Run(name, func(t *testing.T) { release(t, last) })
	}
}

// release tests the life of a release. The values in last, if any, belong to an upgrade during a
// migration.
func release(t *testing.T, last []string) {
	t.Helper()
	u := newInstallation(t)
	u.objects = apply(t, u.plane, render(t))
	u.remove(t) // objects applied by other tests do not belong to this release
	to := []string{"--namespace=" + system, "--kubeconfig=" + kubeconfig(t, u.plane.Config())}
	do := func(args ...string) (out string) {
		t.Helper()
		out, err := helm(t, append(args, to...)...)
		if err != nil {
			t.Fatalf("helm %s: %v: %s", args[0], err, out)
		}
		return out
	}
	do("install", "mooring", chart, "--set=images.controller.tag=v2")
	do(append([]string{"upgrade", "mooring", chart, "--reset-then-reuse-values",
		"--set=fencing.enabled=true"}, enforce()...)...)
	if image := u.controllerImage(t); !strings.HasSuffix(image, ":v2") {
		t.Errorf("after an upgrade the controller's image is %s", image)
	}
	u.migrate(t)
	u.protect(t)
	if last != nil {
		notes := do(append(append([]string{"upgrade", "mooring", chart}, enforce()...), last...)...)
		if !strings.Contains(notes, "kubectl mooring fence --off") {
			t.Errorf("the notes lack the command for pods with the finalizer: %s", notes)
		}
	}
	ended := make(chan error, 1)
	go func() { ended <- u.runJob(t.Context()) }()
	do("uninstall", "mooring")
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	for _, o := range u.objects {
		if o.GetKind() != "Namespace" {
			u.awaitGone(t, o)
		}
	}
	u.checkReleased(t)
	var q corev1.ResourceQuota
	if err := u.admin.Get(t.Context(), client.ObjectKey{Namespace: u.namespace, Name: "default"},
		&q); err != nil {
		t.Fatal(err)
	}
	if pods := q.Spec.Hard[corev1.ResourcePods]; pods.String() != "3" || len(q.Annotations) > 0 {
		t.Errorf("pods %s, annotations %v", pods.String(), q.Annotations)
	}
}
