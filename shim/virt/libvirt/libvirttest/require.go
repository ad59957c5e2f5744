package libvirttest

import (
	"os"
	"strings"
	"testing"
)

// Require skips a test whose prerequisites are missing. It fails the test if MOORING_CI_REQUIRE is
// set.
func Require(t testing.TB, missing ...string) {
	t.Helper()
	switch {
	case len(missing) == 0:
	case os.Getenv("MOORING_CI_REQUIRE") != "":
		t.Fatalf("missing: %s", strings.Join(missing, ", "))
	default:
		t.Skipf("missing: %s", strings.Join(missing, ", "))
	}
}
