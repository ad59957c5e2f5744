package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/yaml"
)

// outputFlags are the flags of commands that list.
type outputFlags struct {
	format    *format
	noHeaders bool
	watch     bool
}

func (f *outputFlags) add(cmd *cobra.Command, tables ...format) {
	f.format = formatFlag(cmd, append(tables, formatJSON, formatYAML, formatName,
		formatJSONPath, formatJSONPathAsJSON, formatJSONPathFile)...)
	cmd.Flags().BoolVar(&f.noHeaders, "no-headers", false, "leave out the titles of columns")
}

func (f *outputFlags) addWatch(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&f.watch, "watch", "w", false,
		"after the list, show each change until interrupted")
}

// isData reports whether the format is for programs.
func (f *outputFlags) isData() bool {
	return *f.format != formatTable && *f.format != formatWide
}

func (f *outputFlags) isWide() bool { return *f.format == formatWide }

// writeData writes value, or names one on a line. YAML and JSONPath have the fields of JSON.
func (f *outputFlags) writeData(w io.Writer, value any, names []string) error {
	switch *f.format {
	case formatName:
		for _, name := range names {
			fmt.Fprintln(w, printable(name))
		}
		return nil
	case formatJSON:
		return writeJSON(w, value)
	case formatYAML:
		return writeYAML(w, value)
	}
	return writeJSONPath(w, value, *f.format)
}

// writeTable writes rows; the first has the titles.
func (f *outputFlags) writeTable(w io.Writer, rows [][]string) error {
	if f.noHeaders {
		rows = rows[1:]
	}
	return table(w, rows)
}

func writeYAML(w io.Writer, value any) error {
	text, err := yaml.Marshal(value)
	if err == nil {
		_, err = io.WriteString(w, printable(string(text)))
	}
	if err != nil {
		return fmt.Errorf("write YAML: %w", err)
	}
	return nil
}

// writeJSONPath writes value by the template or the template's file in f. The output ends with a
// line break.
func writeJSONPath(w io.Writer, value any, f format) error {
	printer, err := (&genericclioptions.JSONPathPrintFlags{}).ToPrinter(string(f.braced()))
	if err != nil {
		return usage("-o %s: %w", f, err)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("write JSONPath: %w", err)
	}
	var data any
	if err := json.Unmarshal(text, &data); err != nil {
		return fmt.Errorf("write JSONPath: %w", err)
	}
	// PrintObj wants a runtime.Object, and would add all data to an error
	path, ok := printer.(*printers.JSONPathPrinter)
	if !ok {
		return fmt.Errorf("-o %s: unknown printer %T", f, printer)
	}
	var out bytes.Buffer
	if err := path.Execute(&out, data); err != nil {
		return fmt.Errorf("-o %s: %w", f, err)
	}
	_, err = fmt.Fprintln(w, strings.TrimSuffix(printable(out.String()), "\n"))
	return err
}
