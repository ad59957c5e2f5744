package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/util/jsonpath"
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
		formatJSONPath)...)
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

// writeData writes value, or names one on a line. YAML and JSONPath have the fields of JSON.
func (f *outputFlags) writeData(w io.Writer, value any, names []string) error {
	switch template, ok := strings.CutPrefix(string(*f.format), jsonpathPrefix); {
	case ok:
		return writeJSONPath(w, value, template)
	case *f.format == formatName:
		for _, name := range names {
			fmt.Fprintln(w, printable(name))
		}
		return nil
	case *f.format == formatYAML:
		return writeYAML(w, value)
	}
	return writeJSON(w, value)
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

func writeJSONPath(w io.Writer, value any, template string) error {
	if !strings.Contains(template, "{") {
		template = "{" + template + "}"
	}
	path := jsonpath.New("output").AllowMissingKeys(true)
	if err := path.Parse(template); err != nil {
		return usage("-o %s%s: %w", jsonpathPrefix, template, err)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("write JSONPath: %w", err)
	}
	var data any
	if err := json.Unmarshal(text, &data); err != nil {
		return fmt.Errorf("write JSONPath: %w", err)
	}
	var out bytes.Buffer
	if err := path.Execute(&out, data); err != nil {
		return fmt.Errorf("-o %s%s: %w", jsonpathPrefix, template, err)
	}
	_, err = fmt.Fprintln(w, printable(out.String()))
	return err
}
