package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
)

// eventually calls check until it returns nil. After the deadline it fails t with the last error.
func eventually(t *testing.T, what string, check func(ctx context.Context) error) {
	t.Helper()
	if err := await(t.Context(), what, check); err != nil {
		t.Fatal(err)
	}
}

func await(ctx context.Context, what string, check func(ctx context.Context) error) error {
	last := error(nil)
	err := wait.PollUntilContextTimeout(ctx, time.Second, patience, true,
		func(ctx context.Context) (bool, error) {
			last = check(ctx)
			return last == nil, nil
		})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w: %w", what, err, last)
	}
	return nil
}

func (c *cluster) makeNamespace(ctx context.Context, name, podSecurity string) error {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if podSecurity != "" {
		ns.Labels = map[string]string{"pod-security.kubernetes.io/enforce": podSecurity}
	}
	_, err := c.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	// Without its default account, a namespace takes no pods.
	return await(ctx, "the account of namespace "+name, func(ctx context.Context) error {
		_, err := c.client.CoreV1().ServiceAccounts(name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
}

// awaitMooring returns when every agent, every fence and the controller are ready.
func (c *cluster) awaitMooring(ctx context.Context) error {
	return await(ctx, "Mooring to be ready", func(ctx context.Context) error {
		sets, err := c.client.AppsV1().DaemonSets(system).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, d := range sets.Items {
			s := d.Status
			if s.ObservedGeneration < d.Generation || s.DesiredNumberScheduled == 0 ||
				s.NumberReady < s.DesiredNumberScheduled ||
				s.UpdatedNumberScheduled < s.DesiredNumberScheduled {
				return fmt.Errorf("%s: %d of %d ready", d.Name, s.NumberReady,
					s.DesiredNumberScheduled)
			}
		}
		deployments, err := c.client.AppsV1().Deployments(system).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, d := range deployments.Items {
			if d.Status.ObservedGeneration < d.Generation ||
				d.Status.ReadyReplicas < *d.Spec.Replicas {
				return fmt.Errorf("%s: %d of %d ready", d.Name, d.Status.ReadyReplicas,
					*d.Spec.Replicas)
			}
		}
		return nil
	})
}

// launcher is a pod with the launcher's annotations and arguments. It requires the agent.
func launcher(name string, annotations map[string]string, args ...string) *corev1.Pod {
	all := map[string]string{
		"launcher.mooring.dev":               "compute",
		"required-plugins.noderesource.dev":  `["mooring"]`,
		"grace-period.lifecycle.mooring.dev": "5s",
		"requires-lock.memlock.mooring.dev":  "true",
		"guest-memory.memlock.mooring.dev":   "4Gi",
		"value.memlock.mooring.dev":          "1Gi",
	}
	for k, v := range annotations {
		all[k] = v
	}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, Annotations: all},
		Spec: corev1.PodSpec{
			RestartPolicy:                 corev1.RestartPolicyNever,
			TerminationGracePeriodSeconds: new(int64(60)),
			AutomountServiceAccountToken:  new(false),
			Containers: []corev1.Container{{
				Name: "compute", Image: image("e2e-launcher"), Args: append([]string{"run"}, args...),
				Resources: corev1.ResourceRequirements{
					Limits: corev1.ResourceList{"memory": resource.MustParse("128Mi")}},
			}},
		},
	}
}

// unrequiring is a launcher that starts without the agent, too.
func unrequiring(name string, annotations map[string]string, args ...string) *corev1.Pod {
	pod := launcher(name, annotations, args...)
	delete(pod.Annotations, "required-plugins.noderesource.dev")
	return pod
}

// create creates a pod, which is deleted when t ends.
func (c *cluster) create(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	pods := c.client.CoreV1().Pods(pod.Namespace)
	if _, err := pods.Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ctx := context.WithoutCancel(t.Context())
	t.Cleanup(func() {
		if t.Failed() {
			c.describe(ctx, t, pod)
		}
		c.delete(t, pod)
	})
}

// delete deletes a pod and returns when it is gone. A missing pod is no error.
func (c *cluster) delete(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	err := c.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name,
		metav1.DeleteOptions{GracePeriodSeconds: new(int64(1))})
	if apierrors.IsNotFound(err) {
		return
	}
	if err := errors.Join(err, c.awaitGone(ctx, pod.Namespace, pod.Name)); err != nil {
		t.Error(err)
	}
}

// describe logs the pod's status and Events.
func (c *cluster) describe(ctx context.Context, t *testing.T, pod *corev1.Pod) {
	t.Helper()
	if now, err := c.client.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name,
		metav1.GetOptions{}); err == nil {
		t.Logf("pod %s: %s %v", pod.Name, now.Status.Phase, now.Status.ContainerStatuses)
	}
	events, err := c.events(ctx, pod.Name)
	for _, e := range events {
		t.Logf("%s %s: %s", e.Type, e.Reason, e.Message)
	}
	if err != nil {
		t.Log(err)
	}
}

func (c *cluster) awaitGone(ctx context.Context, namespace, name string) error {
	return await(ctx, "pod "+name+" to be gone", func(ctx context.Context) error {
		_, err := c.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err != nil:
			return err
		}
		return fmt.Errorf("pod %s is there", name)
	})
}

func (c *cluster) awaitRunning(t *testing.T, name string) {
	t.Helper()
	eventually(t, "pod "+name+" to run", func(ctx context.Context) error {
		pod, err := c.client.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("phase %s", pod.Status.Phase)
		}
		return nil
	})
}

// events are the Events on a pod of the suite.
func (c *cluster) events(ctx context.Context, pod string) ([]corev1.Event, error) {
	list, err := c.client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{
		FieldSelector: "involvedObject.kind=Pod,involvedObject.name=" + pod})
	if err != nil {
		return nil, err
	}
	return list.Items, nil
}

// awaitEvent waits for an Event on a pod with this reason, and with all these words in its text.
func (c *cluster) awaitEvent(t *testing.T, pod, reason string, words ...string) corev1.Event {
	t.Helper()
	var found corev1.Event
	eventually(t, "Event "+reason+" on pod "+pod, func(ctx context.Context) error {
		events, err := c.events(ctx, pod)
		if err != nil {
			return err
		}
		var seen []string
		for _, e := range events {
			seen = append(seen, e.Reason+": "+e.Message)
			if e.Reason == reason && containsAll(e.Message, words) {
				found = e
				return nil
			}
		}
		return fmt.Errorf("Events are\n%s", strings.Join(seen, "\n"))
	})
	return found
}

func containsAll(text string, words []string) bool {
	for _, w := range words {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}

// exec runs a command in a container of a pod and returns its output.
func (c *cluster) exec(
	ctx context.Context, namespace, pod, container string, args ...string,
) (string, error) {
	request := c.client.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).
		Name(pod).SubResource("exec").VersionedParams(&corev1.PodExecOptions{
		Container: container, Command: args, Stdout: true, Stderr: true}, scheme.ParameterCodec)
	e, err := remotecommand.NewSPDYExecutor(c.config, "POST", request.URL())
	if err != nil {
		return "", err
	}
	var out, errs bytes.Buffer
	if err := e.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &out,
		Stderr: &errs}); err != nil {
		return out.String(), fmt.Errorf("%s in pod %s: %w: %s", strings.Join(args, " "), pod, err,
			errs.String())
	}
	return strings.TrimSpace(out.String()), nil
}

// run runs the suite's program in a launcher pod and returns its output.
func (c *cluster) run(t *testing.T, pod string, args ...string) string {
	t.Helper()
	out, err := c.exec(t.Context(), namespace, pod, "compute",
		append([]string{"/usr/bin/launcher"}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
