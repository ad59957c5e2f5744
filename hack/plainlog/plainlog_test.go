package plainlog

import (
	"bytes"
	"testing"
)

func TestLine(t *testing.T) {
	var out bytes.Buffer
	log := New(&out, "hack/node")
	log.Debug("left out")
	log.Info("booting the node", "accelerator", "tcg", "cpus", 2)
	if want := "hack/node: booting the node, accelerator=tcg, cpus=2\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
