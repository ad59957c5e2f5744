package metrics

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

var (
	// metricRow is a row of the documentation's tables: name, type and labels.
	metricRow  = regexp.MustCompile("(?m)^\\| `(mooring_[a-z_]+)` \\| ([a-z]+) \\| ([^|]+) \\|")
	metricName = regexp.MustCompile(`\bmooring_[a-z_]+`)
	// reasonRow is a row of the table of reasons: names and types.
	reasonRow = regexp.MustCompile("(?m)^\\| (`[A-Z][^|]+`) \\| ((?:Normal|Warning)[^|]*) \\|")
	// alertRow is a row of the table of alerts: name and severity.
	alertRow = regexp.MustCompile("(?m)^\\| `(Mooring[A-Za-z]+)` \\| ([a-z]+) \\| [^|]+ \\|$")
)

// ofController reports whether a metric is the controller's. Its own tests check these.
func ofController(metric string) bool {
	return strings.HasPrefix(metric, "mooring_quota_") || strings.HasPrefix(metric, "mooring_fencing_")
}

// monitoring is the directory of alerts and dashboard.
const monitoring = "../../deploy/helm/mooring/files/monitoring"

// alertRule is a rule of alerts.yaml.
type alertRule struct {
	Alert, Expr, For string
	Labels           struct{ Severity string }
	Annotations      struct {
		Summary    string
		RunbookURL string `json:"runbook_url"`
	}
}

func alertRules(t *testing.T) []alertRule {
	t.Helper()
	var file struct {
		Groups []struct {
			Name  string
			Rules []alertRule
		}
	}
	if err := yaml.UnmarshalStrict([]byte(readFile(t, filepath.Join(monitoring, "alerts.yaml"))),
		&file); err != nil {
		t.Fatal(err)
	}
	return file.Groups[0].Rules
}

// TestEveryAlertHasARunbook compares alerts.yaml with the table of alerts and with the runbooks.
func TestEveryAlertHasARunbook(t *testing.T) {
	const page = "https://github.com/mooring-vm/mooring/blob/main/docs/how-to/runbooks.md#"
	runbooks := readFile(t, filepath.Join("..", "..", "docs", "how-to", "runbooks.md"))
	var rules, rows []string
	for _, rule := range alertRules(t) {
		rules = append(rules, rule.Alert+" "+rule.Labels.Severity)
		if rule.Expr == "" || rule.Annotations.Summary == "" ||
			rule.Labels.Severity != "critical" && rule.Labels.Severity != "warning" ||
			rule.Annotations.RunbookURL != page+strings.ToLower(rule.Alert) {
			t.Errorf("%+v: want an expression, a summary, a severity and a runbook", rule)
		}
		if _, text, found := strings.Cut(runbooks, "\n## "+rule.Alert+"\n\n"); !found ||
			strings.Count(strings.SplitN(text, "\n## ", 2)[0], "\n\n") < 1 {
			t.Errorf("runbooks.md: want a section %s with the meaning and the steps", rule.Alert)
		}
	}
	for _, row := range alertRow.FindAllStringSubmatch(readDoc(t, "alerts.md"), -1) {
		rows = append(rows, row[1]+" "+row[2])
	}
	if diff := cmp.Diff(rules, rows); diff != "" {
		t.Errorf("alerts (-rules +table):\n%s", diff)
	}
	if n := strings.Count(runbooks, "\n## "); n != len(rules) {
		t.Errorf("%d runbooks for %d alerts", n, len(rules))
	}
}

// The tables name every metric, with its type and its labels.
func TestMetricsAreDocumented(t *testing.T) {
	documented := map[string]string{}
	for _, row := range metricRow.FindAllStringSubmatch(readDoc(t, "metrics.md"), -1) {
		if ofController(row[1]) {
			continue
		}
		if _, twice := documented[row[1]]; twice {
			t.Errorf("%s is documented twice", row[1])
		}
		documented[row[1]] = row[2] + " " + row[3]
	}
	if diff := cmp.Diff(served(t), documented); diff != "" {
		t.Errorf("metrics (-served +documented):\n%s", diff)
	}
}

// TestNamedMetricsExist covers the reference, the alerts and the dashboard. The controller's own
// test covers its metrics.
func TestNamedMetricsExist(t *testing.T) {
	metrics := served(t)
	text := readDoc(t, "metrics.md")
	for _, file := range []string{"alerts.yaml", "dashboard.json"} {
		text += readFile(t, filepath.Join(monitoring, file))
	}
	controllers := readDoc(t, "metrics.md")
	for _, name := range metricName.FindAllString(text, -1) {
		base := name
		if ofController(name) {
			of := strings.TrimSuffix(name, "_bucket")
			if !strings.Contains(controllers, "| `"+name+"` |") &&
				!strings.Contains(controllers, "| `"+of+"` | histogram |") {
				t.Errorf("%s is not one of the controller's metrics", name)
			}
			continue
		}
		for _, suffix := range []string{"_bucket", "_count", "_sum"} {
			if of, ok := strings.CutSuffix(name, suffix); ok &&
				strings.HasPrefix(metrics[of], "histogram") {
				base = of
			}
		}
		if _, ok := metrics[base]; !ok {
			t.Errorf("%s does not exist", name)
		}
	}
}

// The table has every reason that starts at zero, with its types.
func TestReasonsAreDocumented(t *testing.T) {
	documented := map[string]bool{}
	for _, row := range reasonRow.FindAllStringSubmatch(readDoc(t, "events.md"), -1) {
		for _, reason := range strings.Split(row[1], ", ") {
			for kind := range strings.SplitSeq(row[2], ", ") {
				documented[strings.Trim(reason, "`")+" "+kind] = true
			}
		}
	}
	if diff := cmp.Diff(reasonsAtZero(t), documented); diff != "" {
		t.Errorf("reasons (-counted +documented):\n%s", diff)
	}
}

func reasonsAtZero(t *testing.T) map[string]bool {
	t.Helper()
	families, err := New(Build{}).registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]bool{}
	for _, family := range families {
		if family.GetName() != "mooring_events_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			// sorted by name
			all[metric.GetLabel()[0].GetValue()+" "+metric.GetLabel()[1].GetValue()] = true
		}
	}
	return all
}

func readDoc(t *testing.T, page string) string {
	t.Helper()
	return readFile(t, filepath.Join("..", "..", "docs", "reference", page))
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// served returns the type and the labels of each metric in the documentation's form, without
// the metrics of libraries.
func served(t *testing.T) map[string]string {
	t.Helper()
	m := exercised(t)
	m.Handler() // registers metrics of its own
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	libraries := regexp.MustCompile(`^(go|process|promhttp)_`)
	all := map[string]string{}
	for _, family := range families {
		if libraries.MatchString(family.GetName()) {
			continue
		}
		var labels []string
		for _, label := range family.GetMetric()[0].GetLabel() { // sorted
			labels = append(labels, "`"+label.GetName()+"`")
		}
		if len(labels) == 0 {
			labels = []string{"none"}
		}
		all[family.GetName()] = strings.ToLower(family.GetType().String()) + " " +
			strings.Join(labels, ", ")
	}
	return all
}
