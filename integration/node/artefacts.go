package node

import (
	"context"
	"testing"

	"github.com/mooring-vm/mooring/hack/throwaway"
)

func keepArtefacts(t testing.TB, n *throwaway.Node) {
	t.Cleanup(func() {
		if !t.Failed() {
			return
		}
		dir, err := n.KeepArtefacts(context.Background(), t.Name())
		if err != nil {
			t.Log(err)
		}
		t.Logf("the node's console, journal and containerd log are in %s", dir)
	})
}
