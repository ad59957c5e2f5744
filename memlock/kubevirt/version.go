package kubevirt

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
)

// Version is a version of KubeVirt in the table, from [ParseVersion]. The zero value is no version.
type Version struct {
	major, minor, patch int
	main                bool // newer than every release
}

// wantVersion names the versions of the table. A test compares it with the table's ends.
const wantVersion = "want 0.54 to 0.59 or 1.0 to 1.9, " +
	"with or without a v in front and a patch release behind, or main"

var versionGrammar = regexp.MustCompile(
	`^v?(0|[1-9][0-9]?)\.(0|[1-9][0-9]?)(?:\.(0|[1-9][0-9]{0,3}))?(?:[-+][0-9A-Za-z.+-]{1,64})?$`)

// Main returns KubeVirt's main branch: newer than every release.
func Main() Version { return Version{main: true} }

// ParseVersion reads a version as KubeVirt writes it: "v1.7.0", "1.7.0", "1.7" (the same as 1.7.0)
// or "main". A later patch release uses the row of the one before it. ParseVersion ignores suffixes
// of distributions and release candidates ("-rc.1", "+1"). Any other text, and a version outside
// the table, is an error with the allowed values.
func ParseVersion(s string) (Version, error) {
	if s == "main" {
		return Version{main: true}, nil
	}
	part := versionGrammar.FindStringSubmatch(s)
	if part == nil {
		return Version{}, fmt.Errorf("KubeVirt version %q: %s", s, wantVersion)
	}
	v := Version{major: number(part[1]), minor: number(part[2]), patch: number(part[3])}
	if !v.covered() {
		return Version{}, fmt.Errorf("KubeVirt version %q is not in the table: %s", s, wantVersion)
	}
	return v, nil
}

// number returns the value of a few digits, 0 for none.
func number(digits string) int {
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0
	}
	return n
}

// covered reports whether the table covers the release line: 1.0 follows 0.59.
func (v Version) covered() bool {
	switch {
	case v.main:
		return true
	case v.major == 0:
		return v.minor >= 54 && v.minor <= 59
	}
	return v.major == 1 && v.minor <= 9
}

// String returns "1.7.0" or "main".
func (v Version) String() string {
	if v.main {
		return "main"
	}
	return fmt.Sprintf("%d.%d.%d", v.major, v.minor, v.patch)
}

// Compare orders versions: it is negative if v is older than o, positive if v is newer. main is
// newer than all others.
func (v Version) Compare(o Version) int {
	switch {
	case v.main && o.main:
		return 0
	case v.main:
		return 1
	case o.main:
		return -1
	}
	return cmp.Or(cmp.Compare(v.major, o.major), cmp.Compare(v.minor, o.minor),
		cmp.Compare(v.patch, o.patch))
}
