package deploy

import "testing"

// CRDs belong to the release, so an upgrade replaces them.
func TestCRDs(t *testing.T) {
	const name = "CustomResourceDefinition migrationreservations.mooring.dev"
	if o := decode(t, render(t))[name]; o == nil ||
		o.GetAnnotations()["helm.sh/resource-policy"] != "" {
		t.Errorf("by default: %v", o)
	}
	if o := decode(t,
		render(t, "--set=crds.keep=true"))[name]; o.GetAnnotations()["helm.sh/resource-policy"] !=
		"keep" {
		t.Errorf("annotations %v", o.GetAnnotations())
	}
	if o := decode(t, render(t, "--set=crds.install=false"))[name]; o != nil {
		t.Error("it is there without")
	}
}
