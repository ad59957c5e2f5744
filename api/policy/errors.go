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

// maxShown bounds the shown part of a path or a value, in bytes.
const maxShown = 120

// FieldError reports a fault in one field of a policy.
type FieldError struct {
	Path    string // such as "rules[1].memlock.max"
	Value   string // as JSON, or its kind if the structure is wrong; empty: there is no value
	Allowed string // the fault or the allowed values, as text for people
}

// Error implements error. The text is short and printable for any file.
func (e *FieldError) Error() string {
	if e.Value == "" {
		return fmt.Sprintf("%s: %s", show(e.Path), e.Allowed)
	}
	return fmt.Sprintf("%s: %s: %s", show(e.Path), show(e.Value), e.Allowed)
}

// show returns the beginning of s without characters that would garble a terminal or a log.
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

// allowed returns an error without its value if package api made it, because a [FieldError] names
// the value itself.
func allowed(err error) string {
	if invalid, ok := errors.AsType[*api.InvalidError](err); ok {
		return invalid.Allowed
	}
	return err.Error()
}

// fail records a fault of a value in the document.
func (r *reader) fail(path string, raw json.RawMessage, format string, args ...any) {
	r.faults = append(r.faults, &FieldError{r.at + path, string(raw), fmt.Sprintf(format, args...)})
}
