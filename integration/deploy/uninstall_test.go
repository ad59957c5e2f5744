package deploy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/google/go-cmp/cmp"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/cli"
	"github.com/mooring-vm/mooring/hack/kube"
	kubetest "github.com/mooring-vm/mooring/integration/kube"
	"github.com/mooring-vm/mooring/quota"
)

// installation is a cluster with Mooring in enforce mode, an active migration, and pods of fencing.
type installation struct {
	plane     *kube.ControlPlane
	admin     client.Client
	namespace string
	objects   []*unstructured.Unstructured // of the chart, including helm uninstall's hook
	uninstall []string                     // command line of that hook
}

func newInstallation(t *testing.T) *installation {
	t.Helper()
	plane := kubetest.Start(t)
	clientset, err := kubernetes.NewForConfig(plane.Config())
	if err != nil {
		t.Fatal(err)
	}
	return &installation{plane: plane, admin: clientFor(t, plane.Config()),
		namespace: kubetest.Namespace(t, clientset)}
}

func startInstallation(t *testing.T) *installation {
	t.Helper()
	u := newInstallation(t)
	u.objects = apply(t, u.plane, render(t, append(enforce(),
		"--set=webhooks.shimImage=registry.test/mooring-shim:1,fencing.enabled=true")...))
	if err := u.readJob(t.Context()); err != nil {
		t.Fatal(err)
	}
	u.migrate(t)
	u.protect(t)
	eventually(t, "the rights of the account", func() error {
		_, err := u.run(t.Context(), "--dry-run")
		return err
	})
	return u
}

// enforce returns values for a cluster in enforce mode.
func enforce() []string {
	return []string{"--set=mode=enforce",
		"--set-file=agent.policy=../../deploy/policy/enforce.yaml"}
}

// readJob reads the command line of the Job and the rights of its account.
func (u *installation) readJob(ctx context.Context) error {
	var job batchv1.Job
	if err := u.admin.Get(ctx, uninstallJob(), &job); err != nil {
		return err
	}
	kubeconfig, err := u.plane.Kubeconfig(ctx, system, job.Spec.Template.Spec.ServiceAccountName)
	if err != nil {
		return err
	}
	u.uninstall = nil
	for _, arg := range job.Spec.Template.Spec.Containers[0].Args {
		u.uninstall = append(u.uninstall, strings.Replace(arg, "in-cluster", kubeconfig, 1))
	}
	return nil
}

func uninstallJob() client.ObjectKey {
	return client.ObjectKey{Namespace: system, Name: "mooring-uninstall"}
}

// migrate creates the controller's objects and annotations of an active migration.
func (u *installation) migrate(t *testing.T) {
	t.Helper()
	raised := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: u.namespace, Name: "default",
			Annotations: map[string]string{
				quota.BaseAnnotation: `{"pods":"3"}`, quota.AppliedAnnotation: `{"pods":"4"}`,
				quota.DefaultPrefix + "migratingVMs": `{}`,
			}},
		Spec: corev1.ResourceQuotaSpec{
			Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("4")}},
	}
	reservation := &v1alpha1.MigrationReservation{
		ObjectMeta: metav1.ObjectMeta{Namespace: u.namespace, Name: "uid-1",
			Finalizers: []string{v1alpha1.Finalizer}},
		Spec: v1alpha1.MigrationReservationSpec{
			Migration: v1alpha1.Reference{Name: "migration"}, VMI: v1alpha1.Reference{Name: "vm"},
			From: v1alpha1.Estimated,
			Pods: []v1alpha1.ReservedPod{{Role: v1alpha1.RoleLauncher,
				Charge: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}}},
		},
	}
	eventually(t, "the CRD to be served", func() error {
		return u.admin.Create(t.Context(), reservation)
	})
	if err := u.admin.Create(t.Context(), raised); err != nil {
		t.Fatal(err)
	}
	annotated := client.RawPatch(client.Merge.Type(),
		fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"{}"}}}`,
			quota.DefaultPrefix+"vmAvailable"))
	if err := u.admin.Patch(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: u.namespace}}, annotated); err !=
		nil {
		t.Fatal(err)
	}
}

// run runs helm uninstall's command with the same rights.
func (u *installation) run(ctx context.Context, more ...string) (string, error) {
	return mooring(ctx, append(append([]string{}, u.uninstall...), more...)...)
}

func mooring(ctx context.Context, args ...string) (string, error) {
	var out bytes.Buffer
	program := &cli.Program{Name: "mooring", Out: &out, ErrOut: &out, Now: time.Now}
	if code := program.Run(ctx, args); code != cli.ExitOK {
		return out.String(), fmt.Errorf("exit code %d: %s", code, out.String())
	}
	return out.String(), nil
}

// holdLeaseBriefly gives the controller's lease to another holder for two seconds.
func (u *installation) holdLeaseBriefly(t *testing.T) {
	t.Helper()
	holder, seconds, now := "controller-1", int32(2), metav1.NowMicro()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "mooring-controller"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder,
			LeaseDurationSeconds: &seconds, RenewTime: &now},
	}
	if err := u.admin.Create(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
}

// TestUninstall removes all objects that could block users: first by helm uninstall's command, then
// by deletion of the chart's objects.
func TestUninstall(t *testing.T) {
	u := startInstallation(t)
	u.holdLeaseBriefly(t)
	out, err := u.run(t.Context(), "--force=false")
	if err == nil || !strings.Contains(out, "a controller is at work: controller-1") {
		t.Errorf("while a controller is at work: %v", err)
	}
	out, err = u.run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := strings.ReplaceAll(`scale Deployment mooring-system/mooring-controller down to 0: done
remove ValidatingWebhookConfiguration mooring-guard: done
remove MutatingWebhookConfiguration mooring-launcher: done
remove ValidatingAdmissionPolicyBinding mooring-annotations: done
remove ValidatingAdmissionPolicyBinding mooring-launchers: done
remove ValidatingAdmissionPolicyBinding mooring-namespace-annotations: done
remove ValidatingAdmissionPolicyBinding mooring-quota-annotations: done
remove ValidatingAdmissionPolicyBinding mooring-vm-annotations: done
remove ValidatingAdmissionPolicyBinding mooring-vm-sizes: done
restore ResourceQuota NAMESPACE/default: pods 4 -> 3: done
remove MigrationReservation NAMESPACE/uid-1 of migration migration (quotas may refuse its pods): done
clear the computed annotations and label of namespace NAMESPACE: done
remove the finalizer of pod NAMESPACE/deleted (deleted: its VM may still run): done
remove the finalizer of pod NAMESPACE/lives: done
`, "NAMESPACE", u.namespace)
	if diff := cmp.Diff(want, out); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}
	u.checkCleared(t)
	u.checkScaled(t, 0)
	if out, err := u.run(t.Context()); err != nil || out != "nothing to remove\n" {
		t.Errorf("the second time: %v, printed %q", err, out)
	}
	u.remove(t)
	if out, err := mooring(t.Context(), "uninstall", u.uninstall[1]); err == nil {
		t.Errorf("an account that is gone may do it: %s", out)
	}
}

func names(bindings []admissionv1.ValidatingAdmissionPolicyBinding) (all []string) {
	for _, b := range bindings {
		all = append(all, b.Name)
	}
	return all
}

func (u *installation) checkCleared(t *testing.T) {
	t.Helper()
	var hooks admissionv1.ValidatingWebhookConfigurationList
	var mutating admissionv1.MutatingWebhookConfigurationList
	var bindings admissionv1.ValidatingAdmissionPolicyBindingList
	var reservations v1alpha1.MigrationReservationList
	for _, list := range []client.ObjectList{&hooks, &mutating, &bindings, &reservations} {
		if err := u.admin.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	u.checkReleased(t)
	// These policies concern agents, the controller, and pods with the finalizer only.
	bindings.Items = slices.DeleteFunc(bindings.Items,
		func(b admissionv1.ValidatingAdmissionPolicyBinding) bool {
			return b.Name == "mooring-nodestates" || b.Name == "mooring-fencing" ||
				strings.HasPrefix(b.Name, "mooring-controller-")
		})
	if n := len(hooks.Items) + len(mutating.Items) + len(bindings.Items) +
		len(reservations.Items); n > 0 {
		t.Errorf("left are: %d and %d webhook configurations, the policy bindings %v, "+
			"and %d reservations", len(hooks.Items), len(mutating.Items),
			names(bindings.Items), len(reservations.Items))
	}
	var q corev1.ResourceQuota
	var ns corev1.Namespace
	for key, o := range map[client.ObjectKey]client.Object{
		{Namespace: u.namespace, Name: "default"}: &q,
		{Name: u.namespace}:                       &ns,
	} {
		if err := u.admin.Get(t.Context(), key, o); err != nil {
			t.Fatal(err)
		}
	}
	if pods := q.Spec.Hard[corev1.ResourcePods]; pods.String() != "3" ||
		len(q.Annotations)+len(ns.Annotations) > 0 {
		t.Errorf("pods %s, annotations %v and %v", pods.String(), q.Annotations, ns.Annotations)
	}
}

func (u *installation) checkScaled(t *testing.T, want int32) {
	t.Helper()
	var d appsv1.Deployment
	if err := u.admin.Get(t.Context(),
		client.ObjectKey{Namespace: system, Name: "mooring-controller"}, &d); err != nil {
		t.Fatal(err)
	}
	if *d.Spec.Replicas != want {
		t.Errorf("%d replicas, want %d", *d.Spec.Replicas, want)
	}
}

// TestUninstallRefusesBeforeItChangesAnything has a quota with an unreadable base. The uninstall
// changes no object until it is repaired, and then finishes.
func TestUninstallRefusesBeforeItChangesAnything(t *testing.T) {
	u := startInstallation(t)
	u.annotateQuota(t, quota.BaseAnnotation, `"many"`)
	out, err := u.run(t.Context())
	if err == nil || strings.Contains(out, "done") ||
		!strings.Contains(out, "read the base of ResourceQuota "+u.namespace+"/default") {
		t.Errorf("%v, printed %q", err, out)
	}
	u.checkScaled(t, 2)
	for _, o := range u.objects {
		if err := u.admin.Get(t.Context(), client.ObjectKeyFromObject(o), o.DeepCopy()); err !=
			nil {
			t.Errorf("%s: %v", o.GetKind(), err)
		}
	}
	u.annotateQuota(t, quota.BaseAnnotation, `{"pods":"3"}`)
	if out, err := u.run(t.Context()); err != nil {
		t.Fatalf("%v, printed %q", err, out)
	}
	u.checkCleared(t)
	u.remove(t)
}

func (u *installation) annotateQuota(t *testing.T, key, value string) {
	t.Helper()
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: u.namespace,
		Name: "default"}}
	patch := client.RawPatch(client.Merge.Type(),
		fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value))
	if err := u.admin.Patch(t.Context(), q, patch); err != nil {
		t.Fatal(err)
	}
}

// remove deletes the chart's objects except the namespace, because its deletion requires a
// controller. It waits until they are gone, including the CRD with all reservations.
func (u *installation) remove(t *testing.T) {
	t.Helper()
	for _, o := range u.objects {
		if o.GetKind() == "Namespace" {
			continue
		}
		if err := u.admin.Delete(t.Context(), o,
			client.PropagationPolicy(metav1.DeletePropagationBackground)); client.IgnoreNotFound(
			err) != nil {
			t.Errorf("%s %s: %v", o.GetKind(), o.GetName(), err)
			continue
		}
		u.awaitGone(t, o)
	}
}

func (u *installation) awaitGone(t *testing.T, o *unstructured.Unstructured) {
	t.Helper()
	eventually(t, o.GetKind()+" "+o.GetName()+" to be gone", func() error {
		err := u.admin.Get(t.Context(), client.ObjectKeyFromObject(o), o.DeepCopy())
		if apierrors.IsNotFound(err) {
			return nil
		}
		return errors.Join(err, errors.New("it still exists"))
	})
}

// TestUninstallAfterwards deletes all objects during a reservation, like helm uninstall --no-hooks.
// The CRD stays until `mooring uninstall` removes the reservation.
func TestUninstallAfterwards(t *testing.T) {
	u := startInstallation(t)
	var crd *unstructured.Unstructured
	for _, o := range u.objects {
		switch o.GetKind() {
		case "Namespace":
			continue
		case "CustomResourceDefinition":
			if strings.HasPrefix(o.GetName(), "migrationreservations.") {
				crd = o
			}
		}
		if err := u.admin.Delete(t.Context(), o); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the CRD to wait for the reservation", func() error {
		if err := u.admin.Get(t.Context(), client.ObjectKeyFromObject(crd), crd); err != nil {
			return err
		}
		if crd.GetDeletionTimestamp() == nil {
			return errors.New("it is not being deleted")
		}
		return nil
	})
	if out, err := mooring(t.Context(), "uninstall", "--kubeconfig="+kubeconfig(t,
		u.plane.Config()), "--namespace="+system, "--force"); err != nil {
		t.Fatalf("%v, printed %q", err, out)
	}
	u.awaitGone(t, crd)
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
