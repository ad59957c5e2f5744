package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/mooring-vm/mooring/api"
)

// reader collects the faults of a document.
type reader struct {
	faults []error
	at     string            // prefix of each path: "spec." in an object
	names  map[string]string // path of each named element, by list and name
	odd    map[string]string // numbers that YAML would change, by path
}

// parser reads one leaf of the document.
type parser[T any] func(raw json.RawMessage) (T, error)

// required reads a leaf that must be there.
func required[T any](r *reader, path string, raw json.RawMessage, parse parser[T]) (zero T) {
	if raw == nil {
		_, err := parse(json.RawMessage(`""`))
		if err == nil {
			err = errors.New("want a value")
		}
		r.fail(path, nil, "missing: %s", allowed(err))
		return zero
	}
	return optional(r, path, raw, zero, parse)
}

// optional reads a leaf that may be absent.
func optional[T any](r *reader, path string, raw json.RawMessage, absent T, parse parser[T]) T {
	if raw == nil {
		return absent
	}
	if spelling, ok := r.odd[r.at+path]; ok {
		r.fail(path, json.RawMessage(spelling), "%s", wantDigits)
		return absent
	}
	v, err := parse(raw)
	if err != nil {
		r.fail(path, raw, "%s", allowed(err))
		return absent
	}
	return v
}

// list reads a list of leaves, none of them twice.
func list(r *reader, path string, raw []json.RawMessage, parse parser[string]) []string {
	var all []string
	for i, element := range raw {
		at := fmt.Sprintf("%s[%d]", path, i)
		v := required(r, at, element, parse)
		if v != "" && slices.Contains(all, v) {
			r.fail(at, element, "is in the list already")
		}
		all = append(all, v)
	}
	return all
}

func text(raw json.RawMessage) (string, error) {
	var s *string
	if err := json.Unmarshal(raw, &s); err != nil || s == nil {
		return "", errors.New("want a string")
	}
	return *s, nil
}

func boolean(raw json.RawMessage) (bool, error) {
	var b *bool
	if err := json.Unmarshal(raw, &b); err != nil || b == nil {
		return false, errors.New("want true or false")
	}
	return *b, nil
}

// oneOf reads one of a few words.
func oneOf[T ~string](words ...T) parser[T] {
	return func(raw json.RawMessage) (T, error) {
		s, err := text(raw)
		if err == nil && slices.Contains(words, T(s)) {
			return T(s), nil
		}
		quoted := make([]string, len(words))
		for i, w := range words {
			quoted[i] = string(w)
		}
		return "", fmt.Errorf("want %s", strings.Join(quoted, " or "))
	}
}

// quantity reads an amount of bytes, with quotes or as YAML's bare number.
func quantity(raw json.RawMessage) (int64, error) {
	s, err := text(raw)
	if err != nil {
		s = string(raw)
	}
	b, err := api.ParseBytes(s)
	return int64(b), err
}

func positiveQuantity(raw json.RawMessage) (int64, error) {
	n, err := quantity(raw)
	if err == nil && n == 0 {
		err = errors.New("want more than zero; leave it out for no ceiling")
	}
	return n, err
}

func dnsLabel(raw json.RawMessage) (string, error) {
	s, err := text(raw)
	if err != nil || len(validation.IsDNS1123Label(s)) > 0 {
		return "", errors.New("want a name: 1 to 63 of a-z, 0-9 and -, with a letter or digit at " +
			"either end")
	}
	return s, nil
}

func labelValue(raw json.RawMessage) (string, error) {
	s, err := text(raw)
	if err != nil || len(validation.IsValidLabelValue(s)) > 0 {
		return "", errors.New("want a label's value: up to 63 of A-Z, a-z, 0-9, -, _ and ., in " +
			"quotes where YAML takes it for a number")
	}
	return s, nil
}

func namespaceGlob(raw json.RawMessage) (string, error) {
	return glob(raw, "",
		`want a namespace or a glob of *, ? and [a-z], such as "vms" or "tenant-*"`)
}

func serviceAccountGlob(raw json.RawMessage) (string, error) {
	return glob(raw, ".",
		`want a service account or a glob of *, ? and [a-z], such as "default" or "vm-*"`)
}

// glob reads a pattern of path.Match with characters that Kubernetes accepts in names.
func glob(raw json.RawMessage, more, want string) (string, error) {
	s, err := text(raw)
	if err != nil || s == "" ||
		strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-*?[^]"+more) != "" {
		return "", errors.New(want)
	}
	if _, err := path.Match(s, ""); err != nil {
		return "", errors.New(want)
	}
	return s, nil
}

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
