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

// writeNotes writes the section of the version in CHANGELOG.md.
func (r *release) writeNotes(context.Context) error {
	changelog, err := os.ReadFile("CHANGELOG.md")
	if err != nil {
		return err
	}
	notes, found := section(string(changelog), strings.TrimPrefix(r.version, "v"))
	if !found {
		r.log.Warn("CHANGELOG.md has no section of the version: the notes are those of Unreleased",
			"version", r.version)
		if notes, found = section(string(changelog), "Unreleased"); !found {
			return fmt.Errorf("CHANGELOG.md: want a section [%s] or [Unreleased]", r.version[1:])
		}
	}
	text := "# Mooring " + r.version + "\n\n" + notes
	return os.WriteFile(filepath.Join(r.out, notesFile), []byte(text), 0o644)
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
