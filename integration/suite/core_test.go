package suite

import (
	"os"
	"testing"

	"github.com/mooring-vm/mooring/integration/cri"
)

// handlerEnv names the runtime handler of all pods. Empty means the runtime's default.
const handlerEnv = "MOORING_SUITE_HANDLER"

// claim makes a test part of the core: the promises to users. The core runs on every runtime
// of the version matrix (go run ./integration/matrix). Names of its tests begin with TestCore.
// text is the promise, for docs/reference/compatibility.md.
func claim(t *testing.T, text string) {
	t.Helper()
	t.Attr("claim", text)
}

// outcome adds a result to a claim, if the result depends on the runtime.
func outcome(t *testing.T, text string) {
	t.Helper()
	t.Attr("outcome", text)
}

// handlers returns the handlers of this test run: the one in handlerEnv, or else both of the
// node.
func handlers() []string {
	if h := os.Getenv(handlerEnv); h != "" {
		return []string{h}
	}
	return []string{"runc", "crun"}
}

// TestCoreNode reports the versions of the node to the version matrix.
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
