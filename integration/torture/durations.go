package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"
)

// durations are the durations of steps by name.
type durations map[string][]time.Duration

func (c durations) add(name string, took time.Duration) { c[name] = append(c[name], took) }

// print writes a table with one line per name.
func (c durations) print(to io.Writer, title string) {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, title+"\tnumber\tmedian\tworst\ttotal")
	for _, name := range slices.Sorted(maps.Keys(c)) {
		all := slices.Sorted(slices.Values(c[name]))
		sum := time.Duration(0)
		for _, d := range all {
			sum += d
		}
		fmt.Fprintf(w, "%s\t%d\t%.3f s\t%.3f s\t%.1f s\n", name, len(all),
			all[len(all)/2].Seconds(), all[len(all)-1].Seconds(), sum.Seconds())
	}
	_ = w.Flush()
}
