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

// page is what the template sees.
type page struct {
	Columns []column
	Holds   []row // the same everywhere, as far as it holds
	Differs []row // holds in ways that depend on the runtime
	Broken  []finding
	Skipped []finding
}

// column is a cell with the runs of all its handlers.
type column struct {
	Cell string
	runs []coreRun
}

// row is a claim, with one text for each column.
type row struct {
	Claim string
	Cells []string
}

// finding is a claim that did not hold, or was not tried.
type finding struct{ Where, Claim, Reason string }

func render(runs []coreRun) ([]byte, error) {
	p := page{Columns: columns(runs)}
	for _, text := range claimTexts(runs) {
		r := row{Claim: text}
		for _, c := range p.Columns {
			r.Cells = append(r.Cells, c.verdict(text))
		}
		if dependsOnTheRuntime(runs, text) {
			p.Differs = append(p.Differs, r)
		} else {
			p.Holds = append(p.Holds, r)
		}
	}
	p.Broken, p.Skipped = findings(runs, "fail"), findings(runs, "skip")
	t, err := template.New("page").Parse(pageTemplate)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, p)
	return b.Bytes(), err
}

func columns(runs []coreRun) []column {
	var cs []column
	for _, r := range runs {
		i := slices.IndexFunc(cs, func(c column) bool { return c.Cell == r.Cell })
		if i < 0 {
			i, cs = len(cs), append(cs, column{Cell: r.Cell})
		}
		cs[i].runs = append(cs[i].runs, r)
	}
	return cs
}

// claimTexts are those of all runs, in the order of the first that has them.
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

func dependsOnTheRuntime(runs []coreRun, text string) bool {
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
		return "yes"
	}
}

// verdict names the handlers where they differ.
func (c column) verdict(text string) string {
	var all, named []string
	for _, r := range c.runs {
		v := r.verdict(text)
		if !slices.Contains(all, v) {
			all = append(all, v)
		}
		named = append(named, r.Handler+": "+v)
	}
	if len(all) == 1 {
		return all[0]
	}
	return strings.Join(named, "; ")
}

// Fact is what was found in the cell. Every run of it found the same, but for the
// handlers' versions.
func (c column) Fact(name string) string {
	for _, r := range c.runs {
		if v := r.Facts[name]; v != "" {
			return v
		}
	}
	return "not told"
}

// Date is that of the latest run.
func (c column) Date() string {
	return slices.MaxFunc(c.runs, func(a, b coreRun) int { return strings.Compare(a.Date, b.Date) }).Date
}

// Handler is the version of one that was run with.
func (c column) Handler(name string) string {
	if !slices.ContainsFunc(c.runs, func(r coreRun) bool { return r.Handler == name }) {
		return "not run"
	}
	return c.Fact(name)
}

// Head is the cell over its column of a table.
func (c column) Head() string {
	head := upstream(c.Fact("runtime")) + ", kernel " + upstream(c.Fact("kernel"))
	if strings.Contains(c.Cell, "-nri") {
		head += ", NRI " + c.Fact("nri")
	}
	var handlers []string
	for _, r := range c.runs {
		handlers = append(handlers, r.Handler)
	}
	return head + ", " + strings.Join(handlers, " and ")
}

// upstream is NAME VERSION, or VERSION, without what a distribution or a build adds to
// the version.
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
