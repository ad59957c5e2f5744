package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// row is what one pod asked for, what the kernel or containerd said, and what of
// that is not as it should be.
type row struct {
	number              int
	title               string
	asked, shown, wrong []string
}

func (r row) verdict() string {
	if len(r.wrong) > 0 {
		return "WRONG"
	}
	return "ok"
}

type table struct{ rows []row }

func (t *table) add(r row) { t.rows = append(t.rows, r) }

// verdict is an error where anything is not as it should be.
func (t *table) verdict() error {
	var wrong []error
	for _, r := range t.rows {
		if len(r.wrong) > 0 {
			wrong = append(wrong, fmt.Errorf("pod %d is not as it should be: %s", r.number, strings.Join(r.wrong, ", ")))
		}
	}
	return errors.Join(wrong...)
}

// print puts long lines of text under each other rather than into columns that
// no terminal is wide enough for.
func (t *table) print() {
	const askedWidth = 52
	if len(t.rows) == 0 {
		return
	}
	line := strings.Repeat("-", 112)
	fmt.Printf("\n%s\n   %-*s  %s\n%s\n", line, askedWidth, "asked for", "what the kernel shows", line)
	for _, r := range t.rows {
		fmt.Printf("%d  %-102s  %5s\n", r.number, r.title, r.verdict())
		for i := range max(len(r.asked), len(r.shown)) {
			shown := wrap(at(r.shown, i), 56)
			fmt.Printf("   %-*s  %s\n", askedWidth, at(r.asked, i), shown[0])
			for _, more := range shown[1:] {
				fmt.Printf("   %-*s  %s\n", askedWidth, "", more)
			}
		}
		for _, w := range r.wrong {
			fmt.Printf("   WRONG: %s\n", w)
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
