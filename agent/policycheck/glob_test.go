package policycheck

import (
	"path"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCovers(t *testing.T) {
	for name, test := range map[string]struct {
		by   []string
		glob string
		want bool
	}{
		"everything":        {[]string{"*"}, "vms-*", true},
		"itself":            {[]string{"vms-?[a-c]*"}, "vms-?[a-c]*", true},
		"a name":            {[]string{"vms-*"}, "vms-1", true},
		"two stars":         {[]string{"*a*"}, "ba*", true},
		"a narrower class":  {[]string{"x[a-f]"}, "x[b-c]", true},
		"a negated class":   {[]string{"x[^a]"}, "x[b-c]", true},
		"all of them":       {[]string{"x[a-c]", "x[d-f]"}, "x[b-e]", true},
		"one letter more":   {[]string{"vms?"}, "vms*", false},
		"another prefix":    {[]string{"vms-*"}, "vms*", false},
		"a hole":            {[]string{"x[a-b]", "x[d-f]"}, "x[b-e]", false},
		"nothing":           {nil, "a", false},
		"too long to tell":  {[]string{"*a" + strings.Repeat("?", 20)}, "*b" + strings.Repeat("?", 20), false},
		"stars after stars": {[]string{"a**b"}, "a*b", true},
	} {
		if got := covers([]globList{test.by}, test.glob); got != test.want {
			t.Errorf("%s: covers(%q, %q) = %t", name, test.by, test.glob, got)
		}
	}
}

// What is said to be covered is: a name that only the glob matches would show a
// warning to be wrong.
func TestCoversProperty(t *testing.T) {
	piece := rapid.SampledFrom([]string{"a", "b", "-", "?", "*", "[ab]", "[^a]", "[a-c]"})
	glob := rapid.Custom(func(t *rapid.T) string {
		return strings.Join(rapid.SliceOfN(piece, 1, 5).Draw(t, "pieces"), "")
	})
	rapid.Check(t, func(t *rapid.T) {
		by, one := rapid.SliceOfN(glob, 1, 3).Draw(t, "by"), glob.Draw(t, "glob")
		covered := covers([]globList{by}, one)
		distinguished := false
		for range 50 {
			name := rapid.StringOfN(rapid.RuneFrom([]rune("abc-")), 0, 5, -1).Draw(t, "name")
			distinguished = distinguished || matches(one, name) && !matches(by[0], name) &&
				(len(by) < 2 || !matches(by[1], name)) && (len(by) < 3 || !matches(by[2], name))
		}
		if covered && distinguished {
			t.Fatalf("%q is said to cover %q", by, one)
		}
	})
}

func matches(glob, name string) bool {
	ok, _ := path.Match(glob, name)
	return ok
}
