package report

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"text/template"
)

//go:embed benchmarks.md.tmpl
var page string

// Markdown renders the page of all tables, each of which must be there.
func (r Result) Markdown() (string, error) {
	functions := template.FuncMap{
		"table": r.markdown,
		"where": func(name string) (Machine, error) { t, err := r.table(name); return t.Where, err },
	}
	t, err := template.New("benchmarks.md").Funcs(functions).Parse(page)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	if err := t.Execute(&out, nil); err != nil {
		return "", fmt.Errorf("rendering the page of figures: %w", err)
	}
	return out.String(), nil
}

func (r Result) table(name string) (Table, error) {
	t, ok := r.Tables[name]
	if !ok {
		return Table{}, fmt.Errorf("%w: there are none of %q", ErrIncomplete, name)
	}
	return t, nil
}

func (r Result) markdown(name string) (string, error) {
	t, err := r.table(name)
	if err != nil {
		return "", err
	}
	lines, err := t.cells()
	if err != nil {
		return "", err
	}
	var all []string
	for i, cells := range lines {
		all = append(all, "| "+strings.Join(cells, " | ")+" |")
		if i == 0 {
			all = append(all, strings.Repeat("|---", len(cells))+"|")
		}
	}
	return strings.Join(all, "\n"), nil
}

// Print writes a table for a terminal.
func (t Table) Print(w io.Writer) error {
	lines, err := t.cells()
	if err != nil {
		return err
	}
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, cells := range lines {
		fmt.Fprintln(out, strings.Join(cells, "\t"))
	}
	return out.Flush()
}

// ErrIncomplete is for a page of which not all tables were measured.
var ErrIncomplete = errors.New("not all figures of the page were measured")

// RenderFile renders FILE.json to FILE.md.
func RenderFile(file string) error {
	stem, ok := strings.CutSuffix(file, ".json")
	if !ok {
		return fmt.Errorf("rendering figures: %q: want a name that ends with .json", file)
	}
	r, err := Load(file)
	if err != nil {
		return err
	}
	text, err := r.Markdown()
	if err != nil {
		return err
	}
	return os.WriteFile(stem+".md", []byte(text), 0o644)
}
