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
)

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
	if !slices.Contains(v.allowed, format(s)) {
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
	return &chosen
}
