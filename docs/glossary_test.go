package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var glossaryRow = regexp.MustCompile(`(?m)^\| ([^|]+) \| ([^|]+) \|$`)

// TestGlossary checks for each word of the glossary: it has one entry, and another page uses it.
func TestGlossary(t *testing.T) {
	const glossary = "docs/reference/glossary.md"
	text, err := os.ReadFile(filepath.Join("..", glossary))
	if err != nil {
		t.Fatal(err)
	}
	var others strings.Builder
	for name, page := range pages(t, "docs", "README.md") {
		if name != glossary {
			others.WriteString(strings.ToLower(strings.Join(strings.Fields(page), " ")) + "\n")
		}
	}
	known := map[string]bool{}
	for _, row := range glossaryRow.FindAllStringSubmatch(string(text), -1) {
		if row[1] == "Word" {
			continue
		}
		for _, word := range strings.Split(row[1], ", ") {
			if known[word] {
				t.Errorf("%q has two entries", word)
			}
			known[word] = true
			if !strings.Contains(others.String(), strings.ToLower(word)) {
				t.Errorf("no page uses %q", word)
			}
		}
	}
	if len(known) < 50 {
		t.Errorf("found %d words", len(known))
	}
}
