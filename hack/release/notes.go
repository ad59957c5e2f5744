package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// notesFile holds the release notes.
const notesFile = "NOTES.md"

// writeNotes writes the section of the version in CHANGELOG.md. Those of a snapshot are in the
// section Unreleased if the version has none.
func (r *release) writeNotes(context.Context) error {
	changelog, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		return err
	}
	notes, err := r.notes(string(changelog))
	if err != nil {
		return err
	}
	text := "# Mooring " + r.version + "\n\n" + notes
	return os.WriteFile(filepath.Join(r.out, notesFile), []byte(text), 0o644)
}

func (r *release) notes(changelog string) (string, error) {
	names := []string{strings.TrimPrefix(r.version, "v")}
	if r.snapshot {
		names = append(names, "Unreleased")
	}
	for _, name := range names {
		if notes, found := section(changelog, name); found && strings.TrimSpace(notes) != "" {
			return notes, nil
		}
	}
	return "", fmt.Errorf("CHANGELOG.md: want a section [%s] with text",
		strings.Join(names, "] or ["))
}

// section returns the text below the heading "## [NAME]", up to the next heading of this level or
// the links at the end.
func section(changelog, name string) (text string, found bool) {
	var b strings.Builder
	for line := range strings.Lines(changelog) {
		switch {
		case strings.HasPrefix(line, "## ["):
			if found {
				return strings.TrimSpace(b.String()) + "\n", true
			}
			found = strings.HasPrefix(line, "## ["+name+"]")
		case found && strings.HasPrefix(line, "["):
			return strings.TrimSpace(b.String()) + "\n", true
		case found:
			b.WriteString(line)
		}
	}
	return strings.TrimSpace(b.String()) + "\n", found
}
