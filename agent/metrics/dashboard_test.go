package metrics

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

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
	Name, Type, Label, Definition, AllValue string
	Query                                   any
	Refresh                                 int
	IncludeAll, Multi                       bool
	Datasource                              *source
	Current                                 map[string]string
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
	decoder := json.NewDecoder(strings.NewReader(
		readFile(t, filepath.Join(monitoring, "dashboard.json"))))
	decoder.DisallowUnknownFields()
	var d dashboard
	if err := decoder.Decode(&d); err != nil {
		t.Fatal(err)
	}
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
	if diff := cmp.Diff([]string{"Fleet", "Node", "Quota"}, rows); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

func checkPanel(t *testing.T, p panel) {
	t.Helper()
	if p.Title == "" || p.Description == "" || len(p.Targets) == 0 || p.FieldConfig == nil ||
		p.Datasource == nil || p.Type != "stat" && p.Type != "timeseries" {
		t.Errorf("panel %+v lacks a field", p)
	}
	refs := map[string]bool{}
	for _, target := range p.Targets {
		if !metricName.MatchString(target.Expr) || target.RefID == "" || refs[target.RefID] ||
			target.Datasource != (source{"prometheus", "${datasource}"}) ||
			strings.Count(target.Expr, "(") != strings.Count(target.Expr, ")") {
			t.Errorf("panel %s: %+v", p.Title, target)
		}
		refs[target.RefID] = true
	}
}
