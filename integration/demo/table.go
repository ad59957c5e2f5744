package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// row is what one pod asked for, and what the kernel or containerd said.
type row struct {
	number       int
	title        string
	asked, shown []string
}

type table struct{ rows []row }

func (t *table) add(r row) { t.rows = append(t.rows, r) }

// print puts long lines of text under each other rather than into columns that
// no terminal is wide enough for.
func (t *table) print() {
	const askedWidth = 52
	line := strings.Repeat("-", 112)
	fmt.Printf("\n%s\n   %-*s  %s\n%s\n", line, askedWidth, "asked for", "what the kernel shows", line)
	for _, r := range t.rows {
		fmt.Printf("%d  %s\n", r.number, r.title)
		for i := range max(len(r.asked), len(r.shown)) {
			shown := wrap(at(r.shown, i), 56)
			fmt.Printf("   %-*s  %s\n", askedWidth, at(r.asked, i), shown[0])
			for _, more := range shown[1:] {
				fmt.Printf("   %-*s  %s\n", askedWidth, "", more)
			}
		}
		fmt.Println(line)
	}
}

func at(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return ""
}

func wrap(text string, width int) []string {
	lines := []string{""}
	for word := range strings.FieldsSeq(text) {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case len(*last)+1+len(word) <= width:
			*last += " " + word
		default:
			lines = append(lines, "  "+word)
		}
	}
	return lines
}

// asked lists annotations without our suffix, which would be on every line.
func asked(s scenario) []string {
	if len(s.annotations) == 0 {
		return []string{"nothing"}
	}
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(s.annotations)) {
		lines = append(lines, key+": "+s.annotations[key])
	}
	return lines
}

// readable turns "SOFT HARD" of prlimit into one figure where they are equal.
func readable(limit string) string {
	var words []string
	for word := range strings.FieldsSeq(limit) {
		if n, err := strconv.ParseInt(word, 10, 64); err == nil {
			word = resource.NewQuantity(n, resource.BinarySI).String()
		}
		words = append(words, word)
	}
	if len(words) == 2 && words[0] == words[1] {
		return words[0]
	}
	return "soft " + strings.Join(words, ", hard ")
}
