package guard_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
	"github.com/mooring-vm/mooring/quota/controller"
	"github.com/mooring-vm/mooring/quota/webhook/guard"
)

const (
	own            = "system:serviceaccount:mooring-system:mooring-controller"
	virtController = "system:serviceaccount:kubevirt:kubevirt-controller"
	eve            = "eve"
)

func list(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func inVMs(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "vms", Name: name, UID: types.UID(name)}
}

func namespace(annotations ...string) *corev1.Namespace {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "vms",
		Annotations: map[string]string{}}}
	for i := 0; i < len(annotations); i += 2 {
		ns.Annotations[annotations[i]] = annotations[i+1]
	}
	return ns
}

// ending is a namespace in deletion.
func ending() *corev1.Namespace {
	ns := namespace()
	ns.DeletionTimestamp, ns.Finalizers = &metav1.Time{Time: metav1.Now().Time}, []string{"test"}
	return ns
}

// quiet is a quota of 8 CPUs, 16 GiB and 10 pods, half of them in use.
func quiet() *corev1.ResourceQuota {
	q := &corev1.ResourceQuota{ObjectMeta: inVMs("default")}
	q.Spec.Hard = list("limits.cpu", "8", "limits.memory", "16Gi", "pods", "10", "secrets", "5")
	q.Status.Hard = q.Spec.Hard
	q.Status.Used = list("limits.cpu", "4", "limits.memory", "8Gi", "pods", "4", "secrets", "5")
	return q
}

// raised is quiet with 2 CPUs and 4 GiB reserved.
func raised() *corev1.ResourceQuota {
	q := quiet()
	q.Spec.Hard = list("limits.cpu", "10", "limits.memory", "20Gi", "pods", "11", "secrets", "5")
	q.Status.Hard = q.Spec.Hard
	q.Annotations = map[string]string{
		quota.BaseAnnotation:    `{"limits.cpu":"8","limits.memory":"16Gi","pods":"10","secrets":"5"}`,
		quota.AppliedAnnotation: `{"limits.cpu":"10","limits.memory":"20Gi","pods":"11","secrets":"5"}`,
	}
	return q
}

// reservation belongs to the migration of VM db.
func reservation() *v1alpha1.MigrationReservation {
	r := &v1alpha1.MigrationReservation{ObjectMeta: inVMs("m-db")}
	r.Spec.Migration = v1alpha1.Reference{Name: "migrate-db", UID: "m-db"}
	r.Spec.VMI = v1alpha1.Reference{Name: "db", UID: "vmi-db"}
	r.Spec.Pods = []v1alpha1.ReservedPod{{Role: v1alpha1.RoleLauncher,
		Charge: list("limits.cpu", "2", "limits.memory", "4Gi", "pods", "1")}}
	return r
}

// launcher is a launcher pod.
func launcher(vm, cpu, memory string) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: inVMs("virt-launcher-" + vm)}
	pod.Labels = map[string]string{kubevirtv1.AppLabel: "virt-launcher"}
	pod.OwnerReferences = []metav1.OwnerReference{{Kind: "VirtualMachineInstance", Name: vm,
		UID: types.UID("vmi-" + vm), Controller: new(true)}}
	pod.Spec.Containers = []corev1.Container{
		{Resources: corev1.ResourceRequirements{Limits: list("cpu", cpu, "memory", memory)}}}
	pod.Status.Phase = corev1.PodRunning
	return pod
}

func kubevirtObject() *kubevirtv1.KubeVirt {
	k := &kubevirtv1.KubeVirt{ObjectMeta: metav1.ObjectMeta{Namespace: "kubevirt",
		Name: "kubevirt"}}
	k.Status.ObservedKubeVirtVersion = "v1.7.0"
	return k
}

// world is a cluster with guards.
type world struct {
	client client.Client
	guard  guard.Config
	log    bytes.Buffer
	breaks error // returned by every read of a namespace, if set
}

func newWorld(t testing.TB, objects ...client.Object) *world {
	t.Helper()
	scheme, err := controller.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{}
	w.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
			options ...client.GetOption) error {
			if _, ok := o.(*corev1.Namespace); ok && w.breaks != nil {
				return w.breaks
			}
			return c.Get(ctx, key, o, options...)
		},
	}).Build()
	w.guard = guard.Config{
		Live: w.client, Client: w.client, Exempt: []string{own, guard.KubeSystem},
		Logger: slog.New(slog.NewTextHandler(&w.log, nil)),
	}
	return w
}

func raw(t testing.TB, o client.Object) runtime.RawExtension {
	t.Helper()
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return runtime.RawExtension{Raw: text}
}

// ask is a request of user eve. Either object may be nil.
func ask(t *testing.T, operation admissionv1.Operation, was, is client.Object) admission.Request {
	t.Helper()
	r := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{Operation: operation,
		UserInfo: authenticationv1.UserInfo{Username: eve}}}
	for _, o := range []client.Object{was, is} {
		if o != nil {
			r.Namespace, r.Name = o.GetNamespace(), o.GetName()
		}
	}
	if was != nil {
		r.OldObject = raw(t, was)
	}
	if is != nil {
		r.Object = raw(t, is)
	}
	return r
}

// want expects these texts in the refusal. Without texts the request must pass without a warning.
func want(t *testing.T, got admission.Response, why ...string) {
	t.Helper()
	if len(why) == 0 && (!got.Allowed || len(got.Warnings) > 0) {
		t.Errorf("refused %v, warnings %q: want neither", got.Result, got.Warnings)
	}
	if len(why) > 0 && got.Allowed {
		t.Errorf("passed: want a refusal with %q", why)
	}
	for _, part := range why {
		if got.Result != nil && !strings.Contains(got.Result.Message, part) {
			t.Errorf("%q: want %q in it", got.Result.Message, part)
		}
	}
}

// edit returns a changed copy.
func edit[T client.Object](o T, changes ...func(T)) T {
	out := o.DeepCopyObject().(T)
	for _, change := range changes {
		change(out)
	}
	return out
}

func (w *world) handlers() map[string]admission.Handler {
	return map[string]admission.Handler{
		"quota": guard.NewQuota(w.guard), "namespace": guard.NewNamespace(w.guard),
		"VM": guard.NewVM(w.guard), "migration": guard.NewMigration(w.guard),
		"restore": guard.NewRestore(w.guard), "launcher": guard.NewLauncher(w.guard),
		"pod": guard.NewPod(w.guard),
	}
}
