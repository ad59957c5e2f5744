package libvirt

import (
	"strings"
	"testing"
)

// A command line excludes a domain only with another name and another UUID.
func TestExcludedBy(t *testing.T) {
	const (
		own   = "5530f9f3-5627-4dec-933e-74ce04c51e18"
		other = "a4e2f9d1-6f06-4c8b-9d8f-5a1c2b3d4e5f"
	)
	for name, c := range map[string]struct {
		domain Domain
		args   []string
		want   bool
	}{
		"another domain": {
			Domain{Name: "one", UUID: own},
			[]string{"qemu", "-name", "guest=two,debug-threads=on", "-S", "-uuid", other}, true,
		},
		"UUID of the domain unknown": {
			Domain{Name: "one"},
			[]string{"qemu", "-name", "guest=two", "-uuid", other}, true,
		},
		"old form of the name": {
			Domain{Name: "one"},
			[]string{"qemu", "-name", "two,debug-threads=on", "-uuid", other}, true,
		},
		"same name": {
			Domain{Name: "one", UUID: own},
			[]string{"qemu", "-name", "guest=one,debug-threads=on", "-uuid", other}, false,
		},
		"same name, old form": {
			Domain{Name: "one"},
			[]string{"qemu", "-name", "one", "-uuid", other}, false,
		},
		"same name behind another key": {
			Domain{Name: "one"},
			[]string{"qemu", "-name", "debug-threads=on,guest=one", "-uuid", other}, false,
		},
		"same name with a comma": {
			Domain{Name: "one,guest=two"},
			[]string{"qemu", "-name", "guest=one,,guest=two,process=x", "-uuid", other}, false,
		},
		"same UUID": {
			Domain{Name: "one", UUID: own},
			[]string{"qemu", "-name", "guest=two", "-uuid", own}, false,
		},
		"same UUID in capitals": {
			Domain{Name: "one", UUID: own},
			[]string{"qemu", "-name", "two", "-uuid", strings.ToUpper(own)}, false,
		},
		"same UUID in a second option": {
			Domain{Name: "one", UUID: own},
			[]string{"qemu", "-name", "two", "-uuid", other, "-uuid", own}, false,
		},
		"no name": {
			Domain{Name: "one"},
			[]string{"qemu", "-uuid", other}, false,
		},
		"name without a value": {
			Domain{Name: "one"},
			[]string{"qemu", "-uuid", other, "-name"}, false,
		},
		"unnamed": {
			Domain{Name: "one"},
			[]string{"qemu", "-name", "debug-threads=on", "-uuid", other}, false,
		},
		"no UUID": {
			Domain{Name: "one"},
			[]string{"qemu", "-name", "two"}, false,
		},
		"malformed UUID": {
			Domain{Name: "one"},
			[]string{"qemu", "-name", "two", "-uuid", "x"}, false,
		},
		"no command line": {
			Domain{Name: "one"},
			nil, false,
		},
	} {
		if got := c.domain.ExcludedBy(c.args); got != c.want {
			t.Errorf("%s: excluded: %t, want %t", name, got, c.want)
		}
	}
}
