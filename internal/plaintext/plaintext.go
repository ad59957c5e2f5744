// Package plaintext prepares text of unknown origin for people: Events, warnings, tables, logs.
package plaintext

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// OneLine joins the lines of s with "; ". The text of joined errors has several lines.
func OneLine(s string) string { return strings.ReplaceAll(s, "\n", "; ") }

// Printable replaces each character of s that could change a terminal, except line breaks.
func Printable(s string, replacement rune) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return replacement
	}, s)
}

// MaxNote is the longest text of an Event in bytes. The API server refuses a longer one.
const MaxNote = 1024

// Cut shortens s to at most limit bytes and marks the cut with "...". It cuts between characters.
// The limit must be at least three.
func Cut(s string, limit int) string {
	const mark = "..."
	if len(s) <= limit {
		return s
	}
	end := limit - len(mark)
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + mark
}
