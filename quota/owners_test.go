package quota_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubevirtv1 "kubevirt.io/api/core/v1"

	"github.com/mooring-vm/mooring/quota"
)

// applied is the entry of a tool that applies limits and a label on the server's side.
func applied(manager string, limits ...string) metav1.ManagedFieldsEntry {
	e := updated(manager, limits...)
	e.Operation = metav1.ManagedFieldsOperationApply
	return e
}

func updated(manager string, limits ...string) metav1.ManagedFieldsEntry {
	fields := `{"f:metadata":{"f:labels":{"f:app":{}}}`
	if len(limits) > 0 {
		fields += `,"f:spec":{"f:hard":{"f:` + strings.Join(limits, `":{},"f:`) + `":{}}}`
	}
	return metav1.ManagedFieldsEntry{Manager: manager,
		Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(fields + "}")}
}

func ofStatus() metav1.ManagedFieldsEntry {
	e := updated("kube-controller-manager", "pods")
	e.Subresource = "status"
	return e
}

// fields formats managedFields for a comparison.
func fields(q *corev1.ResourceQuota) []string {
	var out []string
	for _, e := range q.ManagedFields {
		out = append(out, fmt.Sprintf("%s %s %s%s", e.Manager, e.Operation, e.Subresource,
			e.FieldsV1.GetRawString()))
	}
	return out
}

func quotaWrites(p quota.Plan) []quota.WriteQuota {
	var out []quota.WriteQuota
	for _, a := range p.Actions {
		if w, ok := a.(quota.WriteQuota); ok {
			out = append(out, w)
		}
	}
	return out
}

// TestOwnersAreRecorded: a raise records the owners of limits in managedFields.
func TestOwnersAreRecorded(t *testing.T) {
	const record = `{"Apply":{"argocd-controller":["limits.cpu"]}}`
	for name, test := range map[string]struct {
		entries []metav1.ManagedFieldsEntry
		change  func(*corev1.ResourceQuota)
		want    string
	}{
		"none": {want: ""},
		"a tool": {entries: []metav1.ManagedFieldsEntry{applied("argocd-controller", "pods",
			"limits.cpu"), ofStatus()}, want: `{"Apply":{"argocd-controller":["limits.cpu","pods"]}}`},
		"two clients": {entries: []metav1.ManagedFieldsEntry{applied("b", "pods"),
			applied("a", "pods"), updated("a", "limits.cpu"), updated("idle")},
			want: `{"Apply":{"a":["pods"],"b":["pods"]},"Update":{"a":["limits.cpu"]}}`},
		"a limit that the quota has lost": {entries: []metav1.ManagedFieldsEntry{
			applied("argocd-controller", "limits.cpu", "secrets")}, want: record},
		"unreadable fields": {entries: []metav1.ManagedFieldsEntry{
			applied("argocd-controller", "limits.cpu"), {Manager: "none"}}, want: record},
		"raised before": {entries: []metav1.ManagedFieldsEntry{applied("argocd-controller"),
			updated(quota.FieldManager, "limits.cpu")}, change: raisedTo("4", record), want: record},
		"raised before, then reset": {entries: []metav1.ManagedFieldsEntry{
			applied("kubectl", "limits.cpu")}, change: raisedTo("2", record),
			want: `{"Apply":{"argocd-controller":["limits.cpu"],"kubectl":["limits.cpu"]}}`},
		"raised before, then edited": {entries: []metav1.ManagedFieldsEntry{
			applied("kubectl", "limits.cpu")}, change: raisedTo("3", record),
			want: `{"Apply":{"kubectl":["limits.cpu"]}}`},
		"unreadable record": {entries: []metav1.ManagedFieldsEntry{
			applied("argocd-controller", "limits.cpu")}, change: raisedTo("4", "?"), want: record},
	} {
		t.Run(name, func(t *testing.T) {
			s := pending(hard(list("limits.cpu", "2", "pods", "2"), nil))
			q := s.Quotas[0]
			q.ManagedFields = test.entries
			if test.change != nil {
				test.change(q)
			}
			s = settled(t, s)
			if got := s.Quotas[0].Annotations[quota.OwnersAnnotation]; got != test.want {
				t.Errorf("recorded %s, want %s", got, test.want)
			}
			if d := cmp.Diff(test.entries, s.Quotas[0].ManagedFields); d != "" {
				t.Errorf("managedFields change during a migration (-before +after):\n%s", d)
			}
		})
	}
}

// raisedTo makes a quota one that the controller had raised to 4 CPUs, with a limit since then.
func raisedTo(limit, record string) func(*corev1.ResourceQuota) {
	return func(q *corev1.ResourceQuota) {
		annotated(q, `{"limits.cpu":"2","pods":"2"}`, `{"limits.cpu":"4","pods":"3"}`)
		q.Annotations[quota.OwnersAnnotation] = record
		q.Spec.Hard = list("limits.cpu", limit, "pods", "3")
	}
}

// TestOwnersGetTheirLimitsBack: the last write of a quota removes the controller from managedFields
// and adds the recorded owners. It changes no limit, because the API server would make the
// controller the owner of it.
func TestOwnersGetTheirLimitsBack(t *testing.T) {
	for name, inForce := range map[string]string{"followed": "4", "not followed": "2"} {
		t.Run(name, func(t *testing.T) {
			q := hard(nil, nil)
			raisedTo("4", `{"Apply":{"a":["limits.cpu","secrets"],"b":["pods"]}}`)(q)
			q.Status.Hard = list("limits.cpu", inForce, "pods", "2")
			q.ManagedFields = []metav1.ManagedFieldsEntry{applied("a"), ofStatus(),
				updated(quota.FieldManager, "limits.cpu", "pods")}
			s := snapshot(q)
			first := quotaWrites(quota.MakePlan(s, quota.Options{}))
			if len(first) != 1 || first[0].ManagedFields != nil ||
				first[0].Annotations[quota.BaseAnnotation] == "" {
				t.Errorf("%+v: want the base to stay with a write of limits", first)
			}
			s = settled(t, s)
			wantNothing(t, s, list("limits.cpu", "2", "pods", "2"))
			if d := cmp.Diff([]string{
				`a Apply {"f:metadata":{"f:labels":{"f:app":{}}},` +
					`"f:spec":{"f:hard":{"f:limits.cpu":{}}}}`,
				`kube-controller-manager Update status` + ofStatus().FieldsV1.GetRawString(),
				`b Apply {"f:spec":{"f:hard":{"f:pods":{}}}}`,
			}, fields(s.Quotas[0])); d != "" {
				t.Errorf("managedFields (-want +got):\n%s", d)
			}
		})
	}
}

// TestNoOwnersAreGivenBackMeanwhile: a quota with reservations stays the controller's.
func TestNoOwnersAreGivenBackMeanwhile(t *testing.T) {
	s := pending(hard(list("limits.cpu", "2"), nil))
	s.Quotas[0].ManagedFields = []metav1.ManagedFieldsEntry{applied("a", "limits.cpu")}
	s = settled(t, s)
	s.Migrations[0].Status.Phase = kubevirtv1.MigrationFailed
	for _, w := range quotaWrites(quota.MakePlan(s, quota.Options{})) {
		if w.ManagedFields != nil {
			t.Errorf("%+v: want no managedFields with a change of limits", w)
		}
	}
}
