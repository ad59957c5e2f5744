package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// format is an output format.
type format string

const (
	formatTable format = "table"
	formatWide  format = "wide"
	formatText  format = "text"
	formatJSON  format = "json"
	formatYAML  format = "yaml"
	formatName  format = "name"
	// Each of these stands for every format with its prefix.
	formatJSONPath       format = "jsonpath=TEMPLATE"
	formatJSONPathAsJSON format = "jsonpath-as-json=TEMPLATE"
	formatJSONPathFile   format = "jsonpath-file=FILE"
)

// prefix returns the format up to "=", if it has an argument.
func (f format) prefix() string {
	name, _, argument := strings.Cut(string(f), "=")
	if argument {
		name += "="
	}
	return name
}

// braced returns the format with braces around a template without any, as kubectl get accepts it.
func (f format) braced() format {
	prefix := f.prefix()
	template := string(f[len(prefix):])
	if template == "" || prefix == formatJSONPathFile.prefix() || strings.Contains(template, "{") {
		return f
	}
	return format(prefix + "{" + template + "}")
}

// formatValue is the value of -o. The first allowed format is the default.
type formatValue struct {
	chosen  *format
	allowed []format
}

var _ pflag.Value = formatValue{}

func (v formatValue) String() string {
	if v.chosen == nil {
		return ""
	}
	return string(*v.chosen)
}

func (v formatValue) Type() string { return "format" }

func (v formatValue) Set(s string) error {
	prefix := format(s).prefix()
	if !slices.ContainsFunc(v.allowed, func(f format) bool { return f.prefix() == prefix }) {
		return fmt.Errorf("want %s", v.list())
	}
	*v.chosen = format(s)
	return nil
}

func (v formatValue) list() string {
	words := make([]string, 0, len(v.allowed))
	for _, f := range v.allowed {
		words = append(words, string(f))
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// formatFlag adds -o to cmd and returns the chosen format.
func formatFlag(cmd *cobra.Command, allowed ...format) *format {
	chosen := allowed[0]
	value := formatValue{&chosen, allowed}
	cmd.Flags().VarP(value, "output", "o", "output format: "+value.list())
	words := make([]string, 0, len(allowed))
	for _, f := range allowed {
		words = append(words, f.prefix())
	}
	completeFlag(cmd, "output", cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	return &chosen
}
