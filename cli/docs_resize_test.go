package cli

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestResizeCommandsInDocs runs the page's commands with a shim and an agent. The VM has 2 vCPUs
// and 4Gi, as in examples/resize.yaml. Times may differ. -update writes the output into the page.
func TestResizeCommandsInDocs(t *testing.T) {
	const page = "how-to/resize.md"
	doc := readDoc(t, "docs", page)
	w := startStackOf(t, 8*gi, 2, 4*gi)
	blocks := agentBlock.FindAllStringSubmatch(doc, -1)
	if len(blocks) < 3 {
		t.Fatalf("found %d commands", len(blocks))
	}
	for _, block := range blocks {
		args := strings.Fields(strings.ReplaceAll(block[1], "vms/vm-4", "vms/vm-1"))
		got := run(t.Context(), t, w.socket, args...)
		printed := strings.ReplaceAll(got.out+got.errOut, "vms/vm-1", "vms/vm-4")
		if *update {
			doc = strings.Replace(doc, block[0], "```console\n# mooring "+block[1]+"\n"+
				printed+"```", 1)
			continue
		}
		if diff := cmp.Diff(timeless(block[2]), timeless(printed)); diff != "" {
			t.Errorf("# mooring %s (-documented +printed)\n%s", block[1], diff)
		}
	}
	if *update {
		if err := os.WriteFile(docPath("docs", page), []byte(doc), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}
