package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/mooring-vm/mooring/internal/plaintext"
)

func writeJSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return fmt.Errorf("write JSON: %w", err)
	}
	return nil
}

// table writes rows in columns. Empty cells become "-".
func table(w io.Writer, rows [][]string) error {
	aligned := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = cmp.Or(oneLine(cell), "-")
		}
		fmt.Fprintln(aligned, strings.Join(cells, "\t"))
	}
	if err := aligned.Flush(); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

// printable replaces control characters. Values from pod annotations are untrusted and would reach
// root's terminal.
func printable(s string) string {
	return plaintext.Printable(s, '?')
}

// oneLine is printable on a single line.
func oneLine(s string) string {
	return plaintext.OneLine(printable(s))
}

// indented prefixes each line of s.
func indented(s string) string {
	return "  " + strings.ReplaceAll(printable(s), "\n", "\n  ")
}

func age(since, now time.Time) string {
	if since.IsZero() {
		return ""
	}
	return duration.HumanDuration(now.Sub(since))
}
