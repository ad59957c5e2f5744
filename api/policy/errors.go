package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mooring-vm/mooring/api"
)

// maxShown bounds, in bytes, how much of a path or a value an error shows.
const maxShown = 120

// FieldError says what is wrong with one field of a policy.
type FieldError struct {
	Path    string // such as "rules[1].memlock.max"
	Value   string // as JSON, or the kind of it where the structure is wrong; empty: there is none
	Allowed string // what is wrong or what would be right, for people
}

// Error implements error. The text is short and printable whatever the file holds.
func (e *FieldError) Error() string {
	if e.Value == "" {
		return fmt.Sprintf("%s: %s", show(e.Path), e.Allowed)
	}
	return fmt.Sprintf("%s: %s: %s", show(e.Path), show(e.Value), e.Allowed)
}

// show returns the beginning of s, without what would garble a terminal or a log.
func show(s string) string {
	if len(s) > maxShown {
		cut := maxShown
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "..."
	}
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return utf8.RuneError
		}
		return r
	}, s)
}

// allowed returns what an error of package api says is allowed, since the field's
// own error names the value already.
func allowed(err error) string {
	if invalid, ok := errors.AsType[*api.InvalidError](err); ok {
		return invalid.Allowed
	}
	return err.Error()
}

// fail records what is wrong with a value as it stands in the document.
func (r *reader) fail(path string, raw json.RawMessage, format string, args ...any) {
	r.faults = append(r.faults, &FieldError{path, string(raw), fmt.Sprintf(format, args...)})
}
