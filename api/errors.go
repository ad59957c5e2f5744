package api

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

const (
	// maxFaults bounds the errors of one pod. Annotations may have thousands of bad keys, and the
	// text must fit a message to the runtime.
	maxFaults = 10

	// maxShown bounds the shown part of a key or value, in bytes.
	maxShown = 80
)

// InvalidError reports a value, or an annotation with a value, that Mooring cannot use. Its text
// names the key, the value and the allowed values. The text is short and printable for any
// annotation, because Kubernetes Events show it.
type InvalidError struct {
	Key     string // annotation key as written; empty for a value on its own
	Value   string // as written
	Allowed string // the fault or the allowed values, as text for people
}

// Error implements error.
func (e *InvalidError) Error() string {
	if e.Key == "" {
		return Quote(e.Value) + ": " + e.Allowed
	}
	return fmt.Sprintf("annotation %s: %s: %s", showKey(e.Key), Quote(e.Value), e.Allowed)
}

// invalid returns the error of a value. The caller adds its key with keyed.
func invalid(value, format string, args ...any) error {
	return &InvalidError{Value: value, Allowed: fmt.Sprintf(format, args...)}
}

// keyed turns an error about a value into one about the annotation key.
func keyed(key, value string, err error) *InvalidError {
	if bad, ok := errors.AsType[*InvalidError](err); ok {
		return &InvalidError{Key: key, Value: value, Allowed: bad.Allowed}
	}
	return &InvalidError{Key: key, Value: value, Allowed: err.Error()}
}

// joinFaults sorts faults by key and joins them; nil when there are none.
func joinFaults(faults []*InvalidError) error {
	slices.SortFunc(faults, func(a, b *InvalidError) int { return strings.Compare(a.Key, b.Key) })
	shown := faults[:min(len(faults), maxFaults)]
	errs := make([]error, 0, len(shown)+1)
	for _, f := range shown {
		errs = append(errs, f)
	}
	if more := len(faults) - len(shown); more > 0 {
		errs = append(errs, fmt.Errorf("and %d more invalid annotations", more))
	}
	return errors.Join(errs...)
}

// showKey returns a key as it is when Kubernetes would take it, else quoted.
func showKey(key string) string {
	plain := func(r rune) bool { return r > ' ' && r < 0x7f && r != '"' && r != '\\' }
	if strings.IndexFunc(key, func(r rune) bool { return !plain(r) }) < 0 &&
		len(key) <= 2*maxShown {
		return key
	}
	return Quote(key)
}

// Quote returns s as a Go string literal. It cuts s after 80 bytes and marks the cut with "...".
func Quote(s string) string {
	if len(s) <= maxShown {
		return strconv.Quote(s)
	}
	cut := maxShown
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return strconv.Quote(s[:cut]) + "..."
}
