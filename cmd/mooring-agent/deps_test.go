package main

import (
	"os/exec"
	"strings"
	"testing"
)

// The clients of all API groups, with their types, double the program and its resident memory.
func TestAgentHasNoClientOfAllGroups(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	for _, dep := range deps {
		if strings.HasPrefix(dep, "k8s.io/client-go/kubernetes") {
			t.Errorf("the agent depends on %s: see kube.Clients", dep)
		}
	}
	if len(deps) < 100 {
		t.Errorf("only %d packages: %q", len(deps), deps)
	}
}
