package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"text/tabwriter"
	"time"
)

// costs are durations of steps by name.
type costs map[string][]time.Duration

func (c costs) add(name string, took time.Duration) { c[name] = append(c[name], took) }

func (c costs) print(to io.Writer, what string) {
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, what+"\tnumber\tmedian\tworst\tin all")
	for _, name := range slices.Sorted(maps.Keys(c)) {
		all := slices.Sorted(slices.Values(c[name]))
		sum := time.Duration(0)
		for _, d := range all {
			sum += d
		}
		fmt.Fprintf(w, "%s\t%d\t%.3f s\t%.3f s\t%.1f s\n", name, len(all), all[len(all)/2].Seconds(), all[len(all)-1].Seconds(), sum.Seconds())
	}
	_ = w.Flush()
}
