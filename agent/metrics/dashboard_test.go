package metrics

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// TestDashboardFollowsGrafanasSchema validates the file with the types of Grafana's own package.
// Debian and the Go module proxy have no Grafana to load it.
func TestDashboardFollowsGrafanasSchema(t *testing.T) {
	file, err := jsonschema.UnmarshalJSON(strings.NewReader(
		readFile(t, filepath.Join(monitoring, "dashboard.json"))))
	if err != nil {
		t.Fatal(err)
	}
	schema := grafanaSchema(t)
	if err := schema.Validate(map[string]any{"dashboard": file}); err != nil {
		t.Error(err)
	}
	for _, p := range file.(map[string]any)["panels"].([]any) {
		panel := p.(map[string]any)
		if panel["type"] == "row" {
			continue
		}
		options := map[string]any{panel["type"].(string): panel["options"]}
		if err := schema.Validate(options); err != nil {
			t.Errorf("%s: %v", panel["title"], err)
		}
	}
}

// TestSchemaRefuses shows that the schema is strict.
func TestSchemaRefuses(t *testing.T) {
	schema := grafanaSchema(t)
	for _, text := range []string{
		`{"dashboard": {"title": "a"}}`,
		`{"dashboard": {"schemaVersion": 39, "titel": "a"}}`,
		`{"dashboard": {"schemaVersion": 39, "panels": [{"type": "stat", "gridPos": {"h": 1}}]}}`,
		`{"stat": {"colourMode": "value"}}`, `{"gauges": {}}`,
	} {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		if err := schema.Validate(value); err == nil {
			t.Errorf("%s is valid", text)
		}
	}
}

func grafanaSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	schema, err := jsonschema.NewCompiler().Compile(
		filepath.Join("testdata", "grafana.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// TestDashboardQueries evaluates each query on all documented metrics. Each has a result. The
// documentation has the real labels: [TestMetricsAreDocumented].
func TestDashboardQueries(t *testing.T) {
	series := documentedSeries(t)
	filled := strings.NewReplacer("$__rate_interval", "5m", "$node", ".*")
	for _, p := range readDashboard(t).Panels {
		for _, target := range p.Targets {
			result := evaluate(t, filled.Replace(target.Expr), series, 0)
			if len(result) == 0 {
				t.Errorf("%s: %s has no result", p.Title, target.Expr)
			}
			for _, label := range legendLabel.FindAllStringSubmatch(target.LegendFormat, -1) {
				if len(result) > 0 && result[0].Metric.Get(label[1]) == "" {
					t.Errorf("%s: the result of %s has no label %s", p.Title, target.Expr, label[1])
				}
			}
		}
	}
}

// legendLabel is a label in the legend of a query.
var legendLabel = regexp.MustCompile(`\{\{ *(\w+) *\}\}`)

// documentedSeries has a growing series of each documented metric, with all its labels.
func documentedSeries(t *testing.T) samples {
	t.Helper()
	all := samples{}
	for _, row := range metricRow.FindAllStringSubmatch(readDoc(t, "metrics.md"), -1) {
		name, labels := row[1], `instance="node-1"`
		for _, label := range strings.Split(row[3], ", ") {
			if label != "none" {
				labels += "," + strings.Trim(label, "`") + `="x"`
			}
		}
		if row[2] == "histogram" {
			all[name+"_bucket{"+labels+`,le="0.1"}`] = growing(60)
			name, labels = name+"_bucket", labels+`,le="+Inf"`
		}
		all[name+"{"+labels+"}"] = growing(60)
	}
	return all
}

// dashboard is the part of Grafana's dashboard schema (version 39) that the project uses. Decoding
// refuses other fields.
type dashboard struct {
	UID, Title, Refresh, Timezone string
	Tags                          []string
	SchemaVersion, Version        int
	Editable                      bool
	Time                          struct{ From, To string }
	Annotations                   struct{ List []any }
	Templating                    struct{ List []variable }
	Panels                        []panel
}

type variable struct {
	Name, Type, Label, AllValue string
	Query                       any
	Refresh                     int
	IncludeAll, Multi           bool
	Datasource                  *source
	Current                     map[string]string
}

type source struct{ Type, UID string }

type panel struct {
	ID                       int
	Type, Title, Description string
	Collapsed                bool
	Panels                   []panel
	GridPos                  struct{ H, W, X, Y int }
	Datasource               *source
	Options                  map[string]any
	FieldConfig              *struct {
		Defaults  struct{ Unit string }
		Overrides []any
	}
	Targets []struct {
		RefID, Expr, LegendFormat string
		Datasource                source
	}
}

// TestDashboard checks the shape that Grafana loads: rows in order, panels with a place of their
// own, and queries of the chosen data source.
func TestDashboard(t *testing.T) {
	d := readDashboard(t)
	if d.UID == "" || d.Title == "" || d.SchemaVersion != 39 || len(d.Templating.List) != 2 {
		t.Errorf("dashboard %q %q, schema %d, %d variables", d.UID, d.Title, d.SchemaVersion,
			len(d.Templating.List))
	}
	var rows []string
	taken := map[[2]int]string{} // panels by their places in the grid
	ids := map[int]bool{}
	for _, p := range d.Panels {
		if p.Type == "row" {
			rows = append(rows, p.Title)
		} else {
			checkPanel(t, p)
		}
		if ids[p.ID] || p.ID == 0 {
			t.Errorf("%s: id %d is not unique", p.Title, p.ID)
		}
		ids[p.ID] = true
		if p.GridPos.W < 1 || p.GridPos.H < 1 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("%s is outside of the grid: %+v", p.Title, p.GridPos)
		}
		for x := range p.GridPos.W {
			for y := range p.GridPos.H {
				at := [2]int{p.GridPos.X + x, p.GridPos.Y + y}
				if taken[at] != "" {
					t.Fatalf("%s and %s overlap", p.Title, taken[at])
				}
				taken[at] = p.Title
			}
		}
	}
	if diff := cmp.Diff([]string{"Fleet", "Node", "Quota", "Fencing"}, rows); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(
		readFile(t, filepath.Join(monitoring, "dashboard.json"))))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		t.Fatal(err)
	}
	return d
}

func checkPanel(t *testing.T, p panel) {
	t.Helper()
	if p.Title == "" || p.Description == "" || len(p.Targets) == 0 || p.FieldConfig == nil ||
		p.Datasource == nil || p.Type != "stat" && p.Type != "timeseries" {
		t.Errorf("panel %+v lacks a field", p)
	}
	refs := map[string]bool{}
	for _, target := range p.Targets {
		if target.RefID == "" || refs[target.RefID] ||
			target.Datasource != (source{"prometheus", "${datasource}"}) {
			t.Errorf("panel %s: %+v", p.Title, target)
		}
		refs[target.RefID] = true
	}
}
