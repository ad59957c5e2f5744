package main

import (
	"os"
	"strings"
	"testing"
)

// An empty hack/kind once let `make kind` pass without a cluster.
func TestScriptRunsThisCommand(t *testing.T) {
	script, err := os.ReadFile("../../../kind")
	if err != nil {
		t.Fatal(err)
	}
	text := string(script)
	if !strings.Contains(text, "./hack/kindcluster/cmd/kind") || !strings.Contains(text, `exec "$bin"`) {
		t.Errorf("hack/kind does not build and run this command:\n%s", text)
	}
}
