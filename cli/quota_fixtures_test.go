package cli

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
)

// Paths of the API server.
const (
	podsPath         = "/api/v1/namespaces/vms/pods"
	reservationsPath = "/apis/mooring.dev/v1alpha1/namespaces/vms/migrationreservations"
	migrationsPath   = "/apis/kubevirt.io/v1/namespaces/vms/virtualmachineinstancemigrations"
	quotasPath       = "/api/v1/namespaces/vms/resourcequotas"
	namespacePath    = "/api/v1/namespaces/vms"
	kubevirtsPath    = "/apis/kubevirt.io/v1/kubevirts"
)

// quotaServer is a fake API server with a namespace with migrations. For an unknown path it answers
// 404.
type quotaServer struct {
	kubeconfig string

	mu       sync.Mutex
	objects  map[string]any // by path; a *metav1.Status is a refusal
	requests []string
}

func startQuotaServer(t *testing.T) *quotaServer {
	t.Helper()
	s := &quotaServer{kubeconfig: filepath.Join(t.TempDir(), "config"), objects: map[string]any{
		podsPath: corev1.PodList{Items: []corev1.Pod{targetOf("m-db")}},
		reservationsPath: v1alpha1.MigrationReservationList{Items: []v1alpha1.MigrationReservation{
			reservation("m-web", "web", v1alpha1.PhaseReserved, "4", "8Gi"),
			reservation("m-db", "db", v1alpha1.PhaseCharged, "2", "4Gi"),
			reservation("m-old", "old", v1alpha1.PhaseReleasing, "1", "1Gi"),
		}},
		migrationsPath: kubevirtv1.VirtualMachineInstanceMigrationList{
			Items: []kubevirtv1.VirtualMachineInstanceMigration{
				migration("m-db", "db", kubevirtv1.MigrationRunning),
				rejected(migration("m-web", "web", kubevirtv1.MigrationPending)),
				migration("m-new", "new", ""),
				migration("m-done", "new", kubevirtv1.MigrationSucceeded),
			}},
		quotasPath: corev1.ResourceQuotaList{Items: []corev1.ResourceQuota{raisedQuota(),
			optedOutQuota(), brokenQuota()}},
		namespacePath: namespaceWithShare(),
		kubevirtsPath: kubevirtv1.KubeVirtList{Items: []kubevirtv1.KubeVirt{kubevirtObject()}},
	}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	config := "{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: " +
		"{cluster: a, user: a}}], " +
		"users: [{name: a, user: {}}], clusters: [{name: a, cluster: {server: '" +
		server.URL + "'}}]}"
	if err := os.WriteFile(s.kubeconfig, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *quotaServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, r.Method+" "+r.URL.Path)
	answer, ok := s.objects[r.URL.Path]
	if !ok {
		http.NotFound(w, r) // as for resources that are not installed
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if status, refused := answer.(*metav1.Status); refused {
		w.WriteHeader(int(status.Code))
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// forbid makes the server deny the caller's list requests for a resource.
func (s *quotaServer) forbid(path, resource string) {
	s.objects[path] = failure(http.StatusForbidden, metav1.StatusReasonForbidden,
		resource+` is forbidden: User "eve" cannot list resource "`+resource+`" in API group ""`)
}

func failure(code int32, reason metav1.StatusReason, message string) *metav1.Status {
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: code, Reason: reason, Message: message,
	}
}

func amounts(pairs ...string) corev1.ResourceList {
	out := corev1.ResourceList{}
	for i := 0; i+1 < len(pairs); i += 2 {
		out[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return out
}

func inVMs(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "vms", Name: name, UID: types.UID(name)}
}

// targetOf returns the target pod of a migration.
func targetOf(migration string) corev1.Pod {
	pod := corev1.Pod{ObjectMeta: inVMs("virt-launcher-" + migration)}
	pod.Labels = map[string]string{kubevirtv1.AppLabel: "virt-launcher",
		kubevirtv1.MigrationJobLabel: migration}
	pod.Status.Phase = corev1.PodRunning
	return pod
}

func reservation(
	migration, vm string, phase v1alpha1.Phase, cpu, memory string,
) v1alpha1.MigrationReservation {
	r := v1alpha1.MigrationReservation{ObjectMeta: inVMs(migration)}
	r.Spec.Migration = v1alpha1.Reference{Name: migration, UID: types.UID(migration)}
	r.Spec.VMI.Name = vm
	r.Spec.Pods = []v1alpha1.ReservedPod{
		{Role: v1alpha1.RoleLauncher, Charge: amounts("limits.cpu", cpu, "limits.memory", memory,
			"requests.cpu", "100m", "pods", "1")},
	}
	r.Status.Phase = phase
	if phase == v1alpha1.PhaseReserved {
		r.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionWaiting,
			Status: metav1.ConditionTrue, Reason: "QuotaFull",
			Message:            "ResourceQuota default lacks limits.cpu=1",
			LastTransitionTime: metav1.Time{Time: now.Add(-3 * time.Minute)}}}
	}
	return r
}

func migration(
	name, vm string, phase kubevirtv1.VirtualMachineInstanceMigrationPhase,
) kubevirtv1.VirtualMachineInstanceMigration {
	m := kubevirtv1.VirtualMachineInstanceMigration{ObjectMeta: inVMs(name)}
	m.Spec.VMIName, m.Status.Phase = vm, phase
	return m
}

func rejected(
	m kubevirtv1.VirtualMachineInstanceMigration,
) kubevirtv1.VirtualMachineInstanceMigration {
	m.Status.Conditions = []kubevirtv1.VirtualMachineInstanceMigrationCondition{
		{Type: kubevirtv1.VirtualMachineInstanceMigrationRejectedByResourceQuota,
			Status: corev1.ConditionTrue},
	}
	return m
}

// raisedQuota returns a quota raised from 8 to 10 CPUs for reservations of 6 CPUs. The maintenance
// share covers the other 4. Kubernetes has not updated status.hard for CPUs yet.
func raisedQuota() corev1.ResourceQuota {
	q := corev1.ResourceQuota{ObjectMeta: inVMs("default")}
	q.Spec.Hard = amounts("limits.cpu", "10", "limits.memory", "24Gi", "pods", "12")
	q.Annotations = map[string]string{
		quota.BaseAnnotation:    `{"limits.cpu":"8","limits.memory":"16Gi","pods":"10"}`,
		quota.AppliedAnnotation: `{"limits.cpu":"10","limits.memory":"24Gi","pods":"12"}`,
	}
	q.Status.Hard = amounts("limits.cpu", "8", "limits.memory", "24Gi", "pods", "12")
	q.Status.Used = amounts("limits.cpu", "5", "limits.memory", "10Gi")
	return q
}

func optedOutQuota() corev1.ResourceQuota {
	q := corev1.ResourceQuota{ObjectMeta: inVMs("left-alone")}
	q.Spec.Hard = amounts("requests.cpu", "20")
	q.Annotations = map[string]string{quota.DefaultPrefix + "skipResourceQuotaAutoScaling": "true"}
	q.Status = corev1.ResourceQuotaStatus{Hard: amounts("requests.cpu", "20"),
		Used: amounts("requests.cpu", "1500m")}
	return q
}

// brokenQuota has an invalid annotation with a control sequence that clears a terminal.
func brokenQuota() corev1.ResourceQuota {
	q := corev1.ResourceQuota{ObjectMeta: inVMs("broken")}
	q.Spec.Hard = amounts("pods", "1")
	q.Annotations = map[string]string{quota.BaseAnnotation: "\x1b[2J"}
	return q
}

// serveDocumentedExample replaces the objects by the example of the documentation: two VMs of 2 and
// 4 CPUs migrate, and one has its target pod.
func (s *quotaServer) serveDocumentedExample() {
	q := raisedQuota()
	q.Spec.Hard = amounts("limits.cpu", "12", "limits.memory", "28Gi", "pods", "12")
	q.Annotations = map[string]string{
		quota.BaseAnnotation:    `{"limits.cpu":"12","limits.memory":"16Gi","pods":"10"}`,
		quota.AppliedAnnotation: `{"limits.cpu":"12","limits.memory":"28Gi","pods":"12"}`,
	}
	q.Status.Hard, q.Status.Used = q.Spec.Hard, amounts("limits.cpu", "10", "limits.memory", "16Gi",
		"pods", "3")
	s.objects[quotasPath] = corev1.ResourceQuotaList{Items: []corev1.ResourceQuota{q}}
	db, web := reservation("m-db", "db", v1alpha1.PhaseCharged, "2", "4Gi"),
		reservation("m-web", "web", v1alpha1.PhaseGranted, "4", "8Gi")
	source, target := targetOf("m-db"), targetOf("m-db")
	source.Name, source.UID = "virt-launcher-db", "virt-launcher-db"
	delete(source.Labels, kubevirtv1.MigrationJobLabel)
	for _, pod := range []*corev1.Pod{&source, &target} {
		pod.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{
			Limits: amounts("cpu", "2", "memory", "4Gi")}}}
	}
	db.Spec.Source = &v1alpha1.Reference{Name: source.Name, UID: source.UID}
	s.objects[podsPath] = corev1.PodList{Items: []corev1.Pod{source, target}}
	s.objects[reservationsPath] = v1alpha1.MigrationReservationList{
		Items: []v1alpha1.MigrationReservation{db, web}}
	s.objects[migrationsPath] = kubevirtv1.VirtualMachineInstanceMigrationList{
		Items: []kubevirtv1.VirtualMachineInstanceMigration{
			migration("m-db", "db", kubevirtv1.MigrationRunning),
			migration("m-web", "web", kubevirtv1.MigrationPending),
		}}
}

func namespaceWithShare() corev1.Namespace {
	return corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "vms", Annotations: map[string]string{quota.DefaultPrefix + "maintenanceQuota": `{"limitsCpuPercent": 50}`},
	}}
}

func kubevirtObject() kubevirtv1.KubeVirt {
	k := kubevirtv1.KubeVirt{ObjectMeta: metav1.ObjectMeta{Namespace: "kubevirt", Name: "kubevirt"}}
	k.Spec.Configuration.MigrationConfiguration = &kubevirtv1.MigrationConfiguration{
		ParallelMigrationsPerCluster: new(uint32(20)),
		BandwidthPerMigration:        new(resource.MustParse("64Mi")), AllowPostCopy: new(true),
		UtilityVolumesTimeout: new(int64(60)),
	}
	return k
}
