package policycheck

import "testing"

func TestCovers(t *testing.T) {
	for name, test := range map[string]struct {
		globs []string
		glob  string
		want  bool
	}{
		"everything":         {[]string{"x", "*"}, "vms-*", true},
		"same text":          {[]string{"vms-?[a-c]*"}, "vms-?[a-c]*", true},
		"a name":             {[]string{"vms-*"}, "vms-1", true},
		"another name":       {[]string{"vms-*"}, "db-1", false},
		"another prefix":     {[]string{"vms-*"}, "vms*", false},
		"no glob":            {nil, "a", false},
		"pattern in pattern": {[]string{"*a*"}, "ba*", false}, // not compared
	} {
		if got := covers(test.globs, test.glob); got != test.want {
			t.Errorf("%s: covers(%q, %q) = %t", name, test.globs, test.glob, got)
		}
	}
}
