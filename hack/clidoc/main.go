// Command clidoc renders the reference of all command lines from their cobra commands.
package main

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mooring-vm/mooring/agent"
	"github.com/mooring-vm/mooring/cli"
	"github.com/mooring-vm/mooring/internal/buildinfo"
	quota "github.com/mooring-vm/mooring/quota/command"
	shim "github.com/mooring-vm/mooring/shim/command"
)

//go:generate go run . ../../docs/reference

//go:embed pages/*.md.tmpl
var pages embed.FS

// templateSuffix ends the file name of a page's template.
const templateSuffix = ".tmpl"

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: clidoc DIR")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "clidoc:", err)
		os.Exit(1)
	}
}

func write(dir string) error {
	rendered, err := render()
	if err != nil {
		return err
	}
	var errs []error
	for name, text := range rendered {
		errs = append(errs, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return errors.Join(errs...)
}

// programs returns the root command of each program.
func programs() []*cobra.Command {
	var build buildinfo.Info
	return []*cobra.Command{
		(&cli.Program{Name: "mooring", Build: build}).Command(),
		agent.Command(build, io.Discard),
		quota.Command(build, io.Discard),
		shim.Command(build, io.Discard),
	}
}

// render returns the pages by file name. Each command must appear on exactly one page.
func render() (map[string]string, error) {
	left := map[string]*cobra.Command{}
	for _, root := range programs() {
		addRunnable(left, root)
	}
	section := func(path string) (string, error) {
		c, ok := left[path]
		if !ok {
			return "", fmt.Errorf("%q is no command, or appears twice", path)
		}
		delete(left, path)
		return sectionOf(c), nil
	}
	t, err := template.New("pages").Funcs(template.FuncMap{"command": section}).ParseFS(pages,
		"pages/*"+templateSuffix)
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
	if len(left) > 0 {
		return nil, fmt.Errorf("commands without a page: %s",
			strings.Join(slices.Sorted(maps.Keys(left)), ", "))
	}
	return rendered, nil
}

// addRunnable adds c and its subcommands by their path, without groups of commands.
func addRunnable(all map[string]*cobra.Command, c *cobra.Command) {
	if !c.HasSubCommands() || c.HasLocalFlags() {
		all[c.CommandPath()] = c
	}
	for _, sub := range c.Commands() {
		if sub.Name() != "help" && sub.Name() != "completion" {
			addRunnable(all, sub)
		}
	}
}

// sectionOf renders a command: usage, description and flags.
func sectionOf(c *cobra.Command) string {
	var out strings.Builder
	fmt.Fprintf(&out, "## %s\n\n    %s\n\n", c.CommandPath(), c.UseLine())
	description := c.Long
	if description == "" {
		description = c.Short + "."
	}
	out.WriteString(paragraphs(description))
	if rows := flagRows(c.LocalFlags()); len(rows) > 0 {
		out.WriteString("\n\n| Flag | Default | Meaning |\n|---|---|---|\n" +
			strings.Join(rows, "\n"))
	}
	return out.String()
}

// paragraphs keeps indented and listed lines, and joins the lines of prose.
func paragraphs(text string) string {
	var all []string
	for _, p := range strings.Split(strings.TrimSpace(text), "\n\n") {
		if strings.HasPrefix(p, " ") {
			all = append(all, "```text\n"+strings.TrimRight(p, "\n")+"\n```")
			continue
		}
		all = append(all, wrap(p, pageWidth))
	}
	return strings.Join(all, "\n\n")
}

func flagRows(flags *pflag.FlagSet) []string {
	var rows []string
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" || f.Hidden {
			return
		}
		value, usage := pflag.UnquoteUsage(f)
		name := "`--" + f.Name + "`"
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`, " + name
		}
		if value != "" {
			name = strings.TrimSuffix(name, "`") + " " + strings.ToUpper(value) + "`"
		}
		rows = append(rows, fmt.Sprintf("| %s | %s | %s |", name, defaultOf(f), cell(usage)))
	})
	return rows
}

// defaultOf shows a flag's default, unless it is the zero value.
func defaultOf(f *pflag.Flag) string {
	switch f.DefValue {
	case "", "0", "false", "[]", "0s":
		return ""
	}
	return "`" + f.DefValue + "`"
}

// cell renders text in one cell of a table.
func cell(text string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(text), " "), "|", `\|`)
}

// pageWidth is the longest line of prose.
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
