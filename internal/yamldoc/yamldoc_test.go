package yamldoc_test

import (
	"errors"
	"testing"

	"github.com/mooring-vm/mooring/internal/yamldoc"
)

func TestCheckOne(t *testing.T) {
	for text, want := range map[string]error{
		"a: 1\n":                 nil,
		"---\na: 1\n---\n":       nil,
		"":                       yamldoc.ErrEmpty,
		"# only a comment\n":     yamldoc.ErrEmpty,
		"---\n---\n":             yamldoc.ErrEmpty,
		"a: 1\n---\nb: 1\n":      yamldoc.ErrSeveral,
		"---\n# none\n---\nb: 1": yamldoc.ErrSeveral,
	} {
		if err := yamldoc.CheckOne([]byte(text)); !errors.Is(err, want) {
			t.Errorf("CheckOne(%q) = %v, want %v", text, err, want)
		}
	}
	for _, text := range []string{"a: [", "a: &x [*x]", "\xff\xfe\x00"} {
		err := yamldoc.CheckOne([]byte(text))
		if err == nil || errors.Is(err, yamldoc.ErrEmpty) || errors.Is(err, yamldoc.ErrSeveral) {
			t.Errorf("CheckOne(%q) = %v, want another error", text, err)
		}
	}
}
