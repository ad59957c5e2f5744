package report

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"text/template"
)

//go:embed pages/*.md.tmpl
var pages embed.FS

// templateSuffix ends the file name of a page's template.
const templateSuffix = ".tmpl"

// Pages renders the pages of all tables, by file name. Each table of a page must exist.
func (r Result) Pages() (map[string]string, error) {
	functions := template.FuncMap{
		"table":    r.markdown,
		"goals":    r.markdownGoals,
		"measured": r.measured,
	}
	t, err := template.New("pages").Funcs(functions).ParseFS(pages, "pages/*"+templateSuffix)
	if err != nil {
		return nil, err
	}
	rendered := map[string]string{}
	for _, page := range t.Templates() {
		name, ok := strings.CutSuffix(page.Name(), templateSuffix)
		if !ok {
			continue // the set itself
		}
		var out strings.Builder
		if err := page.Execute(&out, nil); err != nil {
			return nil, fmt.Errorf("rendering %s: %w", name, err)
		}
		rendered[name] = out.String()
	}
	return rendered, nil
}

func (r Result) table(name string) (Table, error) {
	t, ok := r.Tables[name]
	if !ok {
		return Table{}, fmt.Errorf("%w: table %q is missing", ErrIncomplete, name)
	}
	return t, nil
}

func (r Result) markdown(name string) (string, error) {
	t, err := r.table(name)
	if err != nil {
		return "", err
	}
	lines, err := t.cells(columns())
	if err != nil {
		return "", err
	}
	return markdownTable(lines), nil
}

// measured returns a sentence about the machine that measured a table. It ends the sentence with
// more.
func (r Result) measured(name string, more ...string) (string, error) {
	t, err := r.table(name)
	if err != nil {
		return "", err
	}
	return wrap("Measured on "+t.Machine.String()+strings.Join(more, "")+".", pageWidth), nil
}

// pageWidth is the longest line of a page's prose.
const pageWidth = 100

// wrap breaks text between words, into lines of at most width bytes.
func wrap(text string, width int) string {
	var lines []string
	for _, word := range strings.Fields(text) {
		if last := len(lines) - 1; last >= 0 && len(lines[last])+1+len(word) <= width {
			lines[last] += " " + word
			continue
		}
		lines = append(lines, word)
	}
	return strings.Join(lines, "\n")
}

// markdownGoals shows each goal of these tables with its figure and its verdict.
func (r Result) markdownGoals(names ...string) (string, error) {
	lines := [][]string{{"measurement", "with", "goal", "figure", "reached"}}
	for _, name := range names {
		t, err := r.table(name)
		if err != nil {
			return "", err
		}
		for _, row := range t.Rows {
			goals, err := row.goalLines()
			if err != nil {
				return "", err
			}
			lines = append(lines, goals...)
		}
	}
	return markdownTable(lines), nil
}

// goalLines returns a line for each goal of the row.
func (r Row) goalLines() ([][]string, error) {
	var lines [][]string
	for _, g := range r.Goals {
		verdict, err := r.Verdict(g)
		if err != nil {
			return nil, err
		}
		lines = append(lines, []string{r.Measurement, r.Candidate, g.format(r.Unit), r.figure(g.Of),
			string(verdict)})
	}
	return lines, nil
}

// markdownTable renders lines of cells, the head first.
func markdownTable(lines [][]string) string {
	var all []string
	for i, cells := range lines {
		all = append(all, "| "+strings.Join(cells, " | ")+" |")
		if i == 0 {
			all = append(all, strings.Repeat("|---", len(cells))+"|")
		}
	}
	return strings.Join(all, "\n")
}

// Print writes a table for a terminal.
func (t Table) Print(w io.Writer) error {
	lines, err := t.cells(withGoals(columns()))
	if err != nil {
		return err
	}
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, cells := range lines {
		fmt.Fprintln(out, strings.Join(cells, "\t"))
	}
	return out.Flush()
}

// ErrIncomplete reports a page with a table that was not measured.
var ErrIncomplete = errors.New("incomplete figures")

// RenderFile renders the figures of a JSON file to pages in dir.
func RenderFile(file, dir string) error {
	r, err := Load(file)
	if err != nil {
		return err
	}
	rendered, err := r.Pages()
	if err != nil {
		return err
	}
	var errs []error
	for name, text := range rendered {
		errs = append(errs, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return errors.Join(errs...)
}
