package libvirttest

import (
	"strings"
	"testing"
)

// leftOutPackages are the packages with tests of a real libvirt. Their files carry the build
// constraint "cgo && libvirt_dlopen".
var leftOutPackages = []string{
	"integration/kubevirt",
	"shim/command",
	"shim/coordinator",
	"shim/shutdown",
	"shim/virt/libvirt",
}

const missingTag = "the build tag libvirt_dlopen or cgo; `. hack/env.sh` sets the tag, " +
	"`hack/setup build` installs gcc for cgo"

// LeftOut stands, in a build without libvirt, for a package's tests with a real libvirt. It skips
// the test and says why. It fails the test if MOORING_CI_REQUIRE is set.
func LeftOut(t testing.TB) {
	t.Helper()
	Require(t, missingTag)
}

// FailLeftOut fails a test in a build without libvirt, and lists the packages of which it leaves
// out tests. go test prints failures but no skips, so one package must fail.
func FailLeftOut(t testing.TB) {
	t.Helper()
	t.Fatalf("tests with a real libvirt are left out of %s: missing: %s; "+
		"to run the rest without them: go test -skip '^TestRealLibvirt$'",
		strings.Join(leftOutPackages, ", "), missingTag)
}
