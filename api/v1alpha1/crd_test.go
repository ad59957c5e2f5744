package v1alpha1_test

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/mooring-vm/mooring/api/v1alpha1"
)

func TestSchemeKnowsTheTypes(t *testing.T) {
	s := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"MigrationReservation", "MigrationReservationList", "NodeState",
		"NodeStateList"} {
		if !s.Recognizes(v1alpha1.GroupVersion().WithKind(kind)) {
			t.Errorf("%s is not known", kind)
		}
	}
}

// crd is the part of the generated CustomResourceDefinition that must agree with the code.
type crd struct {
	Spec struct {
		Group string
		Scope string
		Names struct {
			Kind       string
			ShortNames []string
		}
		Versions []struct {
			Name         string
			Subresources map[string]any
			Schema       struct {
				OpenAPIV3Schema struct {
					Properties struct {
						Status struct {
							Properties struct {
								Phase struct{ Enum []v1alpha1.Phase }
							}
						}
					}
				}
			}
		}
	}
}

func TestCRDAgreesWithTheTypes(t *testing.T) {
	text, err := os.ReadFile("../../deploy/kubernetes/crds/mooring.dev_migrationreservations.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var c crd
	if err := yaml.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	if c.Spec.Group != v1alpha1.Group || c.Spec.Scope != "Namespaced" ||
		c.Spec.Names.Kind != "MigrationReservation" ||
		!slices.Equal(c.Spec.Names.ShortNames, []string{"mres"}) || len(c.Spec.Versions) != 1 {
		t.Fatalf("%+v", c.Spec)
	}
	v := c.Spec.Versions[0]
	if _, ok := v.Subresources["status"]; !ok || v.Name != v1alpha1.Version {
		t.Errorf("version %s with subresources %v: want %s with status", v.Name, v.Subresources,
			v1alpha1.Version)
	}
	phases := slices.Sorted(
		slices.Values(v.Schema.OpenAPIV3Schema.Properties.Status.Properties.Phase.Enum))
	want := []v1alpha1.Phase{v1alpha1.PhaseCharged, v1alpha1.PhaseGranted,
		v1alpha1.PhaseReleasing, v1alpha1.PhaseReserved}
	if !slices.Equal(phases, want) {
		t.Errorf("phases %v, want %v", phases, want)
	}
}

// TestFieldsAreDocumented compares docs/reference/crds.md with the JSON names of the types.
func TestFieldsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/crds.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range []reflect.Type{
		reflect.TypeFor[v1alpha1.MigrationReservationSpec](),
		reflect.TypeFor[v1alpha1.ReservedPod](),
		reflect.TypeFor[v1alpha1.MigrationReservationStatus](),
	} {
		for field := range of.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if !strings.Contains(string(text), "\n| `"+name+"` | ") {
				t.Errorf("docs/reference/crds.md has no row of %s of %s", name, of)
			}
		}
	}
	for _, value := range []string{
		string(v1alpha1.PhaseReserved), string(v1alpha1.PhaseGranted),
		string(v1alpha1.PhaseCharged), string(v1alpha1.PhaseReleasing),
		string(v1alpha1.Estimated), string(v1alpha1.Computed),
		string(v1alpha1.Rendered),
		v1alpha1.ConditionGranted, v1alpha1.ConditionWaiting,
	} {
		if !strings.Contains(string(text), "\n| `"+value+"` | ") {
			t.Errorf("docs/reference/crds.md has no row of %s", value)
		}
	}
}

// TestNodeStateIsDocumented compares docs/reference/node-state.md with the JSON names of the types.
func TestNodeStateIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/node-state.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, of := range []reflect.Type{
		reflect.TypeFor[v1alpha1.NodeStateStatus](), reflect.TypeFor[v1alpha1.NodeReport](),
		reflect.TypeFor[v1alpha1.NRIReport](), reflect.TypeFor[v1alpha1.RuntimeReport](),
		reflect.TypeFor[v1alpha1.MemlockAccount](), reflect.TypeFor[v1alpha1.TrackerReport](),
		reflect.TypeFor[v1alpha1.NodeTotals](), reflect.TypeFor[v1alpha1.LauncherReport](),
		reflect.TypeFor[v1alpha1.PodReport](), reflect.TypeFor[v1alpha1.ContainerReport](),
		reflect.TypeFor[v1alpha1.LimitsReport](), reflect.TypeFor[v1alpha1.SettingReport](),
		reflect.TypeFor[v1alpha1.TermReport](), reflect.TypeFor[v1alpha1.VMReport](),
		reflect.TypeFor[v1alpha1.UsageReport](), reflect.TypeFor[v1alpha1.HeartbeatReport](),
		reflect.TypeFor[v1alpha1.LeaseReport](), reflect.TypeFor[v1alpha1.ResizeReport](),
		reflect.TypeFor[v1alpha1.SizeReport](),
	} {
		for field := range of.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			row := regexp.MustCompile(`(?m)^\|.*` + "`" + name + "`" + `.*\|$`)
			if !row.Match(text) {
				t.Errorf("docs/reference/node-state.md has no row of %s of %s", name, of)
			}
		}
	}
}
