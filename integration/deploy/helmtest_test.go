package deploy

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/mooring-vm/mooring/cli/verify"
	"github.com/mooring-vm/mooring/hack/kube"
	"github.com/mooring-vm/mooring/internal/kubeclient"
	"github.com/mooring-vm/mooring/internal/kubeclient/clientset"
)

// TestHelmTest runs the real `helm test` on a release whose controller serves webhooks. The test
// acts for kubelet, and gives the DaemonSets and the Deployment their status. The check fails while
// the agent is not ready.
func TestHelmTest(t *testing.T) {
	u := newInstallation(t)
	u.objects = apply(t, u.plane, render(t))
	u.remove(t) // objects applied by other tests do not belong to this release
	to := []string{"--namespace=" + system, "--kubeconfig=" + kubeconfig(t, u.plane.Config())}
	if out, err := helm(t, append([]string{"install", "mooring", chart}, to...)...); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	port, err := kube.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	process := u.startController(t, "--webhook-listen="+address)
	u.setReady(t, "mooring-fence", 2)
	u.setReady(t, "mooring-agent", 1)
	u.setControllerReady(t)
	for _, run := range []struct {
		want    string
		patient time.Duration
		fails   bool
	}{
		{"crds: ok\nagent: DaemonSet mooring-agent: 1 of 2 nodes have a ready pod\nfence: ok\n" +
			"controller: ok\nwebhooks: ok\n", 20 * time.Second, true},
		{"crds: ok\nagent: ok\nfence: ok\ncontroller: ok\nwebhooks: ok\n", patience, false},
	} {
		if !run.fails {
			u.setReady(t, "mooring-agent", 2)
		}
		printed := make(chan string, 1)
		go func() { printed <- u.runTestPod(t.Context(), address, run.patient) }()
		out, err := helm(t, append([]string{"test", "mooring"}, to...)...)
		if (err != nil) != run.fails {
			t.Errorf("helm test: %v: %s", err, out)
		}
		if diff := cmp.Diff(run.want, <-printed); diff != "" {
			t.Errorf("printed (-want +got):\n%s", diff)
		}
	}
	if err := process.Stop(); err != nil {
		t.Error(err)
	}
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "mooring-controller"}}
	if err := client.IgnoreNotFound(u.admin.Delete(t.Context(), lease)); err != nil {
		t.Error(err) // of the leader
	}
	if out, err := helm(t, append([]string{"uninstall", "mooring", "--no-hooks"}, to...)...); err !=
		nil {
		t.Errorf("%v: %s", err, out)
	}
}

// setReady gives a DaemonSet of two nodes its status.
func (u *installation) setReady(t *testing.T, name string, ready int32) {
	t.Helper()
	set := &appsv1.DaemonSet{}
	if err := u.admin.Get(t.Context(), client.ObjectKey{Namespace: system, Name: name}, set); err !=
		nil {
		t.Fatal(err)
	}
	set.Status = appsv1.DaemonSetStatus{ObservedGeneration: set.Generation,
		DesiredNumberScheduled: 2, CurrentNumberScheduled: 2, UpdatedNumberScheduled: 2,
		NumberReady: ready}
	if err := u.admin.Status().Update(t.Context(), set); err != nil {
		t.Fatal(err)
	}
}

func (u *installation) setControllerReady(t *testing.T) {
	t.Helper()
	d := u.controller(t)
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: d.Generation, Replicas: 2,
		UpdatedReplicas: 2, ReadyReplicas: 2, AvailableReplicas: 2}
	if err := u.admin.Status().Update(t.Context(), d); err != nil {
		t.Fatal(err)
	}
}

// runTestPod acts for kubelet. It runs the pod's check with the rights of the pod's account, and
// sets the pod's phase. The Service's cluster IP leads to address. It returns the output, or an
// error's text.
func (u *installation) runTestPod(ctx context.Context, address string,
	patient time.Duration) string {
	pod := &corev1.Pod{}
	key := client.ObjectKey{Namespace: system, Name: "mooring-test"}
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, patience, true,
		func(ctx context.Context) (bool, error) {
			err := u.admin.Get(ctx, key, pod)
			return err == nil && pod.Status.Phase == corev1.PodPending, nil
		})
	if err != nil {
		return "waiting for the pod: " + err.Error()
	}
	printed, err := u.verify(ctx, pod, address, patient)
	pod.Status.Phase = corev1.PodSucceeded
	if err != nil {
		pod.Status.Phase = corev1.PodFailed
	}
	if err := u.admin.Status().Update(ctx, pod); err != nil {
		return "set the pod's phase: " + err.Error()
	}
	return printed
}

// verify does the work of `mooring verify` with the pod's flags.
func (u *installation) verify(ctx context.Context, pod *corev1.Pod, address string,
	patient time.Duration) (printed string, err error) {
	kubeconfig, err := u.plane.Kubeconfig(ctx, system, pod.Spec.ServiceAccountName)
	if err != nil {
		return "", err
	}
	config, err := kubeclient.LoadConfig(kubeconfig)
	if err != nil {
		return "", err
	}
	service := &corev1.Service{}
	if err := u.admin.Get(ctx, client.ObjectKey{Namespace: system, Name: "mooring-controller"},
		service); err != nil {
		return "", err
	}
	c := verify.Cluster{
		Print: func(line string) { printed += line + "\n" },
		Dial: func(ctx context.Context, network, to string) (net.Conn, error) {
			if to != net.JoinHostPort(service.Spec.ClusterIP, "443") {
				return nil, fmt.Errorf("no Service %s", to)
			}
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
	}
	for _, arg := range pod.Spec.Containers[0].Args {
		if parts, ok := strings.CutPrefix(arg, "--parts="); ok {
			c.Parts = strings.Split(parts, ",")
		} else if namespace, ok := strings.CutPrefix(arg, "--namespace="); ok {
			c.Namespace = namespace
		}
	}
	if c.Client, err = clientset.New(config, "test"); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, patient)
	defer cancel()
	err = c.Run(ctx)
	return printed, err
}
