package quota_test

import (
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/api/v1alpha1"
	"github.com/mooring-vm/mooring/quota"
)

func TestRendered(t *testing.T) {
	pod := quota.Reserve(v1alpha1.RoleLauncher, target("target", "vm", "m", "3", "4Gi"))
	r := &v1alpha1.MigrationReservation{}
	if got, err := quota.Rendered(r); got != nil || err != nil {
		t.Errorf("got %v, %v of a reservation without a note", got, err)
	}
	r.Annotations = map[string]string{quota.TargetAnnotation: quota.FormatRendered(pod)}
	got, err := quota.Rendered(r)
	if err != nil {
		t.Fatal(err)
	}
	if d := diff(pod, *got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestRenderedErrors(t *testing.T) {
	for text, want := range map[string]string{
		``:                    "want a pod as in spec.pods",
		`{"role":"Launcher"}`: "charge: want at least one resource",
		`{"role":"Attachment","charge":{"pods":"1"}}`:        `role "Attachment": want Launcher`,
		`{"role":"Launcher","charge":{"pods":"-1"}}`:         "charge of pods -1: want 0 or more",
		`{"role":"Launcher","charge":{"pods":"1"},"more":1}`: "unknown field",
	} {
		r := &v1alpha1.MigrationReservation{}
		r.Annotations = map[string]string{quota.TargetAnnotation: text}
		if _, err := quota.Rendered(r); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), quota.TargetAnnotation) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}
