package quota_test

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/quota"
)

func annotated(q *corev1.ResourceQuota, base, applied string) *corev1.ResourceQuota {
	q.Annotations = map[string]string{quota.BaseAnnotation: base, quota.AppliedAnnotation: applied}
	return q
}

func managed(q *corev1.ResourceQuota) *corev1.ResourceQuota {
	q.Labels = map[string]string{quota.DefaultManagerLabel: "true"}
	return q
}

func space(annotations ...string) *corev1.Namespace {
	ns := &corev1.Namespace{}
	ns.Name, ns.Annotations = namespace, map[string]string{}
	for i := 0; i+1 < len(annotations); i += 2 {
		ns.Annotations[annotations[i]] = annotations[i+1]
	}
	return ns
}

func TestBase(t *testing.T) {
	rancher := space(quota.DefaultManagerAnnotation,
		`{"limit":{"limitsCpu":"4000m","pods":"","rockets":7}}`)
	raised := func(limits ...string) *corev1.ResourceQuota {
		return annotated(hard(list(limits...), nil), `{"limits.cpu":"4","pods":"10"}`,
			`{"limits.cpu":"6","pods":"11"}`)
	}
	for name, tt := range map[string]struct {
		quota *corev1.ResourceQuota
		ns    *corev1.Namespace
		o     quota.Options
		want  corev1.ResourceList
	}{
		"not raised": {hard(list("limits.cpu", "4"), nil), space(),
			quota.Options{}, list("limits.cpu", "4")},
		"raised": {raised("limits.cpu", "6", "pods", "11"), space(),
			quota.Options{}, list("limits.cpu", "4", "pods", "10")},
		"the same amount otherwise written": {raised("limits.cpu", "6000m", "pods", "11"), space(),
			quota.Options{}, list("limits.cpu", "4", "pods", "10")},
		"#7178: reset to the base": {raised("limits.cpu", "4", "pods", "10"), space(),
			quota.Options{}, list("limits.cpu", "4", "pods", "10")},
		"an administrator's edit, up": {raised("limits.cpu", "9", "pods", "11"), space(),
			quota.Options{}, list("limits.cpu", "9", "pods", "10")},
		"#3974: an edit, down": {raised("limits.cpu", "1", "pods", "11"), space(),
			quota.Options{}, list("limits.cpu", "1", "pods", "10")},
		"a resource added": {raised("limits.cpu", "6", "pods", "11", "memory",
			"1Gi"), space(), quota.Options{},
			list("limits.cpu", "4", "pods", "10", "memory", "1Gi")},
		"a resource removed": {raised("limits.cpu", "6"), space(), quota.Options{},
			list("limits.cpu", "4")},
		"the manager's resources win": {managed(raised("limits.cpu", "6", "pods", "11")),
			rancher, quota.Options{}, list("limits.cpu", "4", "pods", "10")},
		"also over an edit": {managed(raised("limits.cpu", "9", "pods", "11")),
			rancher, quota.Options{}, list("limits.cpu", "4", "pods", "10")},
		"the manager adds none": {managed(raised("pods", "11")), rancher,
			quota.Options{}, list("pods", "10")},
		"not the manager's quota": {raised("limits.cpu", "9"), rancher, quota.Options{},
			list("limits.cpu", "9")},
		"no manager wanted": {managed(raised("limits.cpu", "9")), rancher,
			quota.Options{ManagerAnnotation: quota.NoManager}, list("limits.cpu", "9")},
		"defect 4: zero is an amount": {hard(list("limits.cpu", "0"), nil), space(),
			quota.Options{}, list("limits.cpu", "0")},
		"another manager, by its annotation": {managed(hard(list("pods", "9"), nil)),
			space("example.org/quota", `{"limit":{"pods":"3"}}`),
			quota.Options{ManagerAnnotation: "example.org/quota"}, list("pods", "3")},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := quota.Base(tt.quota, tt.ns, tt.o)
			if d := diff(tt.want, got); err != nil || d != "" {
				t.Errorf("%v (-want +got):\n%s", err, d)
			}
		})
	}
}

func TestBaseRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		quota *corev1.ResourceQuota
		ns    *corev1.Namespace
		want  string
	}{
		"no JSON": {annotated(hard(list("pods", "1"), nil), "4", ""), space(),
			`ResourceQuota quota: annotation base.quota.mooring.dev: "4": want a JSON object of ` +
				`quantities, such as {"limits.cpu":"4"}`},
		"no quantity": {annotated(hard(list("pods", "1"), nil), "{}", `{"pods":"many"}`), space(),
			`ResourceQuota quota: annotation applied.quota.mooring.dev: "{\"pods\":\"many\"}": ` +
				`pods: "many" is no quantity: want one such as 4, 500m or 8Gi`},
		"negative": {annotated(hard(list("pods", "1"), nil), `{"pods":"-1"}`, ""), space(),
			`ResourceQuota quota: annotation base.quota.mooring.dev: "{\"pods\":\"-1\"}": pods: ` +
				`"-1" is negative: want 0 or more`},
		"the manager's": {managed(hard(list("pods", "1"), nil)),
			space(quota.DefaultManagerAnnotation, `{"limit":{"pods":3}}`),
			`namespace vms: annotation field.cattle.io/resourceQuota: ` +
				`"{\"limit\":{\"pods\":3}}": limit.pods: want a quantity in quotes`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := quota.Base(tt.quota, tt.ns, quota.Options{})
			var invalid *api.InvalidError
			if !errors.As(err, &invalid) || err.Error() != tt.want {
				t.Errorf("got  %v\nwant %s", err, tt.want)
			}
		})
	}
}

func FuzzBaseAnnotation(f *testing.F) {
	for _, seed := range []string{"", "{}", "null", `{"pods":"4"}`,
		`{"limits.cpu":"500m","memory":"1e3"}`, `{"pods":"-1"}`, `{"pods":4}`, `{"":"1Ei"}`, "[",
		`{"a":"1"}{}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q := annotated(hard(list("pods", "6"), nil), text, `{"pods":"6"}`)
		base, err := quota.Base(q, space(), quota.Options{})
		checkParsed(t, base, err, quota.BaseAnnotation)
	})
}

func FuzzManagerAnnotation(f *testing.F) {
	for _, seed := range []string{"", "{}", `{"limit":{}}`, `{"limit":{"pods":"4"}}`,
		`{"limit":{"limitsCpu":"1000m","limitsMemory":"5120Mi"}}`,
		`{"limit":{"pods":""}}`, `{"limit":{"pods":4}}`, `{"limit":{"extended":{"a":"1"}}}`,
		`{"limit":"4"}`, `{"LIMIT":{"pods":"-4"}}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		base, err := quota.Base(managed(hard(list("pods", "6", "limits.cpu", "3"), nil)),
			space(quota.DefaultManagerAnnotation, text), quota.Options{})
		checkParsed(t, base, err, quota.DefaultManagerAnnotation)
	})
}

// checkParsed expects amounts of at least zero, or a short error that names the key.
func checkParsed(t *testing.T, got corev1.ResourceList, err error, key string) {
	t.Helper()
	if err != nil {
		if !strings.Contains(err.Error(), key) || len(err.Error()) > 2<<10 {
			t.Errorf("the error does not name %s, or is long: %v", key, err)
		}
		return
	}
	if len(got) == 0 {
		t.Error("no base, and no error")
	}
	for name, q := range got {
		if q.Sign() < 0 {
			t.Errorf("%s is negative: %s", name, q.String())
		}
	}
}
