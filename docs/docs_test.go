package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

const (
	maxWords = 2000 // ten minutes of reading
	maxLine  = 100
)

// folders lists the folders and files with pages for users and contributors.
func folders() []string {
	return []string{
		"docs", "examples", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "CODE_OF_CONDUCT.md",
		"SECURITY.md",
	}
}

// pages returns the text of each Markdown file below these folders and files, by path from the
// repository's root.
func pages(t *testing.T, roots ...string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, root := range roots {
		root = filepath.Join("..", root)
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".md" {
				return err
			}
			text, err := os.ReadFile(path)
			name, _ := filepath.Rel("..", path)
			all[name] = string(text)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

var (
	fence   = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
)

// slug returns the anchor of a heading, as GitHub makes it.
func slug(heading string) string {
	heading = link.ReplaceAllString(strings.ReplaceAll(heading, "`", ""), "")
	var out strings.Builder
	for _, r := range strings.ToLower(strings.ReplaceAll(heading, "[", "")) {
		switch {
		case r == ' ':
			out.WriteRune('-')
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
			out.WriteRune(r)
		}
	}
	return out.String()
}

func anchors(text string) map[string]bool {
	all := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		all[slug(h[1])] = true
	}
	return all
}

func TestLinks(t *testing.T) {
	for name, text := range pages(t, folders()...) {
		for _, found := range link.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
			target := found[1]
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			path, anchor, _ := strings.Cut(target, "#")
			file := name
			if path != "" {
				file = filepath.Join(filepath.Dir(name), path)
			}
			linked, err := os.Stat(filepath.Join("..", file))
			if err != nil {
				t.Errorf("%s links to %s, which does not exist", name, target)
				continue
			}
			if anchor == "" || linked.IsDir() || filepath.Ext(file) != ".md" {
				continue
			}
			other, err := os.ReadFile(filepath.Join("..", file))
			if err != nil {
				t.Fatal(err)
			}
			if !anchors(string(other))[anchor] {
				t.Errorf("%s links to %s, which has no such heading", name, target)
			}
		}
	}
}

// TestIndex checks that docs/README.md links each page of docs/. The pages of docs/adr and of the
// benchmarks have an index of their own.
func TestIndex(t *testing.T) {
	all := pages(t, "docs")
	index := all["docs/README.md"]
	for name := range all {
		name = strings.TrimPrefix(name, "docs/")
		below := strings.HasPrefix(name, "adr/") || strings.HasPrefix(name, "reference/benchmarks-")
		if name != "README.md" && !below && !strings.Contains(index, "("+name+")") {
			t.Errorf("docs/README.md does not link %s", name)
		}
	}
}

func generated(text string) bool {
	head := text[:min(len(text), 300)]
	return strings.Contains(head, "Not to be edited") || strings.Contains(head, "Do not edit")
}

func TestPagesAreShort(t *testing.T) {
	for name, text := range pages(t, folders()...) {
		if words := len(strings.Fields(text)); words > maxWords {
			t.Errorf("%s has %d words, want at most %d: split the page", name, words, maxWords)

		}
	}
}

// TestLinesAreShort ignores code, messages, generated pages, and the targets of links.
func TestLinesAreShort(t *testing.T) {
	for name, text := range pages(t, folders()...) {
		if generated(text) {
			continue
		}
		for line := range strings.Lines(fence.ReplaceAllString(text, "")) {
			if strings.HasPrefix(line, "    ") {
				continue
			}
			visible := link.ReplaceAllString(strings.TrimSpace(line), "]")
			if utf8.RuneCountInString(visible) > maxLine {
				t.Errorf("%s: a line is longer than %d: %s", name, maxLine, visible)
			}
		}
	}
}
