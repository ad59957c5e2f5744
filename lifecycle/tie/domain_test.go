package tie_test

import (
	"strings"
	"testing"

	"github.com/mooring-vm/mooring/lifecycle/tie"
)

// A declaration means a domain by its name or by its UUID, in the forms that libvirt knows.
func TestDomainMatches(t *testing.T) {
	const (
		id    = "4dea22b3-1d52-48f3-a516-782e98ab3fa0"
		other = "4dea22b3-1d52-48f3-a516-782e98ab3fa1"
		zero  = "00000000-0000-0000-0000-000000000000"
		urn   = "urn:uuid:" + id
	)
	plain, hyphened := strings.Repeat("a_", 16), strings.Repeat("a-", 18)
	for name, test := range map[string]struct {
		declared     string
		domain       tie.Domain
		matches, may bool
	}{
		"its name":          {"web", tie.Domain{Name: "web", UUID: id}, true, true},
		"another name":      {"web2", tie.Domain{Name: "web", UUID: id}, false, false},
		"no name":           {"", tie.Domain{UUID: id}, false, false},
		"32 characters":     {plain, tie.Domain{Name: plain, UUID: id}, true, true},
		"36 characters":     {hyphened, tie.Domain{Name: hyphened, UUID: id}, true, true},
		"its UUID":          {id, tie.Domain{Name: "web", UUID: id}, true, true},
		"in upper case":     {strings.ToUpper(id), tie.Domain{Name: "web", UUID: id}, true, true},
		"without hyphens":   {strings.ReplaceAll(id, "-", ""), tie.Domain{UUID: id}, true, true},
		"another UUID":      {other, tie.Domain{Name: "web", UUID: id}, false, false},
		"a UUID as a name":  {id, tie.Domain{Name: id, UUID: other}, false, false},
		"a URN":             {urn, tie.Domain{Name: "web", UUID: id}, false, false},
		"a URN as a name":   {urn, tie.Domain{Name: urn, UUID: id}, true, true},
		"in braces":         {"{" + id + "}", tie.Domain{Name: "web", UUID: id}, false, false},
		"an unknown UUID":   {id, tie.Domain{Name: "web"}, false, true},
		"a damaged UUID":    {zero, tie.Domain{Name: "web", UUID: "damaged"}, false, false},
		"nothing in common": {"web2", tie.Domain{Name: "web"}, false, false},
	} {
		if got := test.domain.Matches(test.declared); got != test.matches {
			t.Errorf("%s: Matches is %t", name, got)
		}
		if got := test.domain.MayMatch(test.declared); got != test.may {
			t.Errorf("%s: MayMatch is %t", name, got)
		}
	}
}
