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
	// formatJSONPath stands for every format that starts with jsonpathPrefix.
	formatJSONPath format = "jsonpath=TEMPLATE"
)

const jsonpathPrefix = "jsonpath="

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
	kind := format(s)
	if strings.HasPrefix(s, jsonpathPrefix) {
		kind = formatJSONPath
	}
	if !slices.Contains(v.allowed, kind) {
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
		word, _, _ := strings.Cut(string(f), "TEMPLATE")
		words = append(words, word)
	}
	completeFlag(cmd, "output", cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	return &chosen
}
