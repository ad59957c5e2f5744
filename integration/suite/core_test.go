package suite

import (
	"os"
	"testing"

	"github.com/mooring-vm/mooring/integration/cri"
)

// handlerEnv names the runtime handler of all pods; the runtime's default where
// it is empty.
const handlerEnv = "MOORING_SUITE_HANDLER"

// claim makes a test part of the core, what users rely on, which runs on every
// runtime of the version matrix: go run ./integration/matrix. Names of such tests
// begin with TestCore. text is what the test shows, for docs/reference/compatibility.md.
func claim(t *testing.T, text string) {
	t.Helper()
	t.Attr("claim", text)
}

// outcome adds to a claim how it holds, where that depends on the runtime.
func outcome(t *testing.T, text string) {
	t.Helper()
	t.Attr("outcome", text)
}

// handlers are those of one test run: the asked one, or else both that a node has.
func handlers() []string {
	if h := os.Getenv(handlerEnv); h != "" {
		return []string{h}
	}
	return []string{"runc", "crun"}
}

// TestCoreNode tells the version matrix what the tests ran on.
func TestCoreNode(t *testing.T) {
	f := setUp(t)
	r := f.runtime(t)
	t.Attr("kernel", f.output(t, "uname", "-r"))
	t.Attr("runtime", r.name+" "+r.version)
	t.Attr("nri", r.nri)
	for _, h := range handlers() {
		t.Attr(h, f.ociVersion(t, h))
	}
	i := f.run(t, plain(), cri.Container{MemoryLimit: gib})
	if got := f.memlock(t, i); got != both(8*mib) {
		t.Errorf("a plain container has %s; the other tests expect 8 MiB without the agent", got)
	}
}
