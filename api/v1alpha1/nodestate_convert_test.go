package v1alpha1_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/mooring-vm/mooring/api"
	"github.com/mooring-vm/mooring/api/agentapi"
	"github.com/mooring-vm/mooring/api/podapi"
	"github.com/mooring-vm/mooring/api/v1alpha1"
)

// fill sets every field below v to a value other than zero. Times are whole seconds.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)))
			return
		}
		for _, field := range v.Fields() {
			fill(field)
		}
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"text": "text"}))
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Float64:
		v.SetFloat(7)
	case reflect.Uint64:
		v.SetUint(7)
	default:
		v.SetInt(7)
	}
}

func filled[T any](omit func(*T)) (value T) {
	fill(reflect.ValueOf(&value).Elem())
	omit(&value)
	return value
}

// A field that an agent reports on its socket and not in the NodeState would be lost here.
func TestReportsKeepEveryField(t *testing.T) {
	launcher := filled(func(l *agentapi.Launcher) { l.Resize, l.DryRun, l.Facts = nil, nil, nil })
	report, err := v1alpha1.LauncherReportOf(launcher)
	if err != nil {
		t.Fatal(err)
	}
	back, err := report.Launcher()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(asJSON(t, launcher), asJSON(t, back)); diff != "" {
		t.Errorf("launcher (-want +got):\n%s", diff)
	}

	node := filled(func(n *agentapi.Node) { n.Headroom = podapi.Headroom{} })
	nodeReport, err := v1alpha1.NodeReportOf(node)
	if err != nil {
		t.Fatal(err)
	}
	nodeBack, err := nodeReport.Node()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(asJSON(t, node), asJSON(t, nodeBack)); diff != "" {
		t.Errorf("node (-want +got):\n%s", diff)
	}
}

// The controller follows the resize of a VM by this part of the report.
func TestReportHasTheResize(t *testing.T) {
	reported := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	report, err := v1alpha1.LauncherReportOf(agentapi.Launcher{Resize: &agentapi.Resize{
		Reported: reported,
		Desired:  &agentapi.DesiredSize{Generation: 3, Size: api.Size{VCPUs: 4, Memory: 8 << 30}},
		Report: podapi.Report{Generation: 3, State: podapi.StateFailed, Error: "no slot",
			Actual: &podapi.Actual{VCPUs: 2, Memory: 4 << 30, Online: 2}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	want := &v1alpha1.ResizeReport{State: "Failed", Error: "no slot",
		Reported: new(metav1.NewTime(reported)),
		Wanted:   &v1alpha1.SizeReport{VCPUs: 4, Memory: 8 << 30},
		Actual:   &v1alpha1.SizeReport{VCPUs: 2, Memory: 4 << 30}}
	if diff := cmp.Diff(want, report.Resize); diff != "" {
		t.Errorf("resize (-want +got):\n%s", diff)
	}
	l, err := report.Launcher()
	if err != nil {
		t.Fatal(err)
	}
	// `mooring ps` and `mooring inspect` show it off the node.
	back := &agentapi.Resize{Reported: reported,
		Desired: &agentapi.DesiredSize{Size: api.Size{VCPUs: 4, Memory: 8 << 30}},
		Report: podapi.Report{State: podapi.StateFailed, Error: "no slot",
			Actual: &podapi.Actual{VCPUs: 2, Memory: 4 << 30, Online: -1}}}
	if diff := cmp.Diff(back, l.Resize); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
}

// Times that the agent does not know are absent: the API server refuses null.
func TestReportsHaveNoNull(t *testing.T) {
	age := 1.4
	report, err := v1alpha1.LauncherReportOf(agentapi.Launcher{
		VMs: []agentapi.VM{{}}, Heartbeat: &agentapi.Heartbeat{Watchdog: 30, Age: &age}})
	if err != nil {
		t.Fatal(err)
	}
	node, err := v1alpha1.NodeReportOf(agentapi.Node{})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{asJSON(t, report), asJSON(t, node)} {
		if strings.Contains(text, "null") {
			t.Errorf("null in %s", text)
		}
	}
	if *report.Heartbeat.Age != 1 {
		t.Errorf("age %d, want 1", *report.Heartbeat.Age)
	}
}

func asJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
