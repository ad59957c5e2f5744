package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"slices"
	"strings"
	"text/template"
)

//go:embed page.md.tmpl
var pageTemplate string

func writePage(file string, r results) error {
	page, err := render(r.runs)
	if err != nil {
		return fmt.Errorf("rendering %s: %w", file, err)
	}
	return os.WriteFile(file, page, 0o644)
}

// page is the data of the template.
type page struct {
	Columns []column
	Holds   []row // claims without an outcome of their own
	Differs []row // claims with an outcome that depends on the runtime
	Failed  []finding
	Skipped []finding
}

// column is a cell with the runs of all its handlers.
type column struct {
	Key  string // one letter, unique on the page
	Cell string
	runs []coreRun
}

// row is a claim with its verdicts, in the order of their first column.
type row struct {
	Claim    string
	Verdicts []verdict
}

// verdict lists the columns in which a claim has this result.
type verdict struct {
	Text string
	Keys []string
}

// On joins the keys of the columns.
func (v verdict) On() string { return strings.Join(v.Keys, ", ") }

// Holds lists the columns in which the claim holds.
func (r row) Holds() string {
	for _, v := range r.Verdicts {
		if v.Text == passed {
			return v.On()
		}
	}
	return "none"
}

// Elsewhere lists the other verdicts with their columns.
func (r row) Elsewhere() string {
	var all []string
	for _, v := range r.Verdicts {
		if v.Text != passed {
			all = append(all, v.Text+": "+v.On())
		}
	}
	return strings.Join(all, "; ")
}

// finding is a claim that failed or was skipped.
type finding struct{ Where, Claim, Reason string }

func render(runs []coreRun) ([]byte, error) {
	p := page{Columns: columns(runs)}
	for _, text := range claimTexts(runs) {
		r := row{Claim: text, Verdicts: verdicts(p.Columns, text)}
		if dependsOnRuntime(runs, text) {
			p.Differs = append(p.Differs, r)
		} else {
			p.Holds = append(p.Holds, r)
		}
	}
	p.Failed, p.Skipped = findings(runs, "fail"), findings(runs, "skip")
	t, err := template.New("page").Parse(pageTemplate)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, p)
	return b.Bytes(), err
}

// verdicts groups the columns by their result for a claim. A column with different results for its
// handlers appears in several groups, with the handler behind its key.
func verdicts(columns []column, claim string) []verdict {
	var all []verdict
	add := func(text, key string) {
		i := slices.IndexFunc(all, func(v verdict) bool { return v.Text == text })
		if i < 0 {
			i, all = len(all), append(all, verdict{Text: text})
		}
		all[i].Keys = append(all[i].Keys, key)
	}
	for _, c := range columns {
		byHandler := c.verdicts(claim)
		if len(slices.Compact(slices.Clone(byHandler))) == 1 {
			add(byHandler[0], c.Key)
			continue
		}
		for i, text := range byHandler {
			add(text, c.Key+" ("+c.runs[i].Handler+")")
		}
	}
	return all
}

// verdicts returns the result of a claim with each handler.
func (c column) verdicts(claim string) []string {
	var all []string
	for _, r := range c.runs {
		all = append(all, r.verdict(claim))
	}
	return all
}

func columns(runs []coreRun) []column {
	var cs []column
	for _, r := range runs {
		i := slices.IndexFunc(cs, func(c column) bool { return c.Cell == r.Cell })
		if i < 0 {
			i, cs = len(cs), append(cs, column{Key: string(rune('A' + len(cs))), Cell: r.Cell})
		}
		cs[i].runs = append(cs[i].runs, r)
	}
	return cs
}

// claimTexts returns the claims of all runs, in the order of their first run.
func claimTexts(runs []coreRun) []string {
	var texts []string
	for _, r := range runs {
		for _, c := range r.Claims {
			if !slices.Contains(texts, c.Claim) {
				texts = append(texts, c.Claim)
			}
		}
	}
	return texts
}

func dependsOnRuntime(runs []coreRun, text string) bool {
	return slices.ContainsFunc(runs, func(r coreRun) bool {
		c, ok := r.claim(text)
		return ok && c.Outcome != ""
	})
}

func (r coreRun) claim(text string) (claim, bool) {
	i := slices.IndexFunc(r.Claims, func(c claim) bool { return c.Claim == text })
	if i < 0 {
		return claim{}, false
	}
	return r.Claims[i], true
}

// passed is the verdict of a claim that holds and has no outcome.
const passed = "yes"

func (r coreRun) verdict(text string) string {
	c, ok := r.claim(text)
	switch {
	case !ok:
		return "not run"
	case c.Result == "fail":
		return "**no**"
	case c.Result == "skip":
		return "not tried"
	case c.Outcome != "":
		return c.Outcome
	default:
		return passed
	}
}

// Fact returns a version found in the cell. Runs of one cell differ only in the version of their
// handler.
func (c column) Fact(name string) string {
	for _, r := range c.runs {
		if v := r.Facts[name]; v != "" {
			return v
		}
	}
	return "unknown"
}

// Date returns the date of the latest run.
func (c column) Date() string {
	latest := slices.MaxFunc(c.runs, func(a, b coreRun) int {
		return strings.Compare(a.Date, b.Date)
	})
	return latest.Date
}

// Handler returns the version of a handler, or "not run".
func (c column) Handler(name string) string {
	if !slices.ContainsFunc(c.runs, func(r coreRun) bool { return r.Handler == name }) {
		return "not run"
	}
	return c.Fact(name)
}

// Kernel returns the kernel's release without the distribution's suffix.
func (c column) Kernel() string { return upstream(c.Fact("kernel")) }

// Runtime returns the runtime's name and version, without a suffix.
func (c column) Runtime() string { return upstream(c.Fact("runtime")) }

// upstream cuts a distribution's or a build's suffix from "NAME VERSION" or "VERSION".
func upstream(fact string) string {
	version := strings.LastIndex(fact, " ") + 1
	return fact[:version+strings.IndexAny(fact[version:]+"~", "~+-")]
}

func findings(runs []coreRun, result string) []finding {
	var fs []finding
	for _, r := range runs {
		for _, c := range r.Claims {
			if c.Result == result {
				fs = append(fs, finding{r.Cell + " with " + r.Handler, c.Claim, c.Reason})
			}
		}
	}
	return fs
}
